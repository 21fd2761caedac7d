"""The code blocks of the documentation's pages."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


class Block(NamedTuple):
    """A fenced block."""

    language: str
    code: str
    line: int


def blocks(page):
    """The fenced blocks of a page, in its order."""
    text = Path(page).read_text()
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2], text[: match.start()].count("\n") + 2) for match in found]


def commands(page):
    """Every command line `python ...` of a page, split into words; also those of indented blocks and of captions."""
    text = Path(page).read_text().replace("\\\n", " ")
    found = re.findall(r"(?:^ *|`)(?:\w+=\S+ )?(python (?:scripts|benchmarks|examples)/[^`\n]*)", text, re.MULTILINE)
    return [shlex.split(command, comments=True) for command in found]


def make_targets(page):
    """Every `make target` of a page."""
    return re.findall(r"(?:^ *|`)make ([\w-]+)", Path(page).read_text(), re.MULTILINE)
