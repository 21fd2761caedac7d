"""An extension of griffe that turns docstrings into Markdown.

Examples become code blocks, the sections of numpy's style become lists, and a blank line stands before every list.
"""

import re
from typing import Any

import griffe


class MarkdownDocstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """A docstring as Markdown."""
    text = re.sub(r"^(\w+)\n-{3,}\n((?:.*\S.*\n?)+)", lambda found: section(found[1], found[2]), text, flags=re.M)
    text = re.sub(r"^(?!\s*- )(.*\S.*)\n(?=\s*- )", r"\1\n\n", text, flags=re.M)
    return re.sub(r"^>>> (?:.*\S.*\n?)+", lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text, flags=re.M)


def section(title: str, entries: str) -> str:
    """`name : text`, with indented lines that go on, as a list."""
    items = re.sub(r"^(\S[^:\n]*?) : ", r"- `\1`: ", entries, flags=re.M)
    return f"**{title}**\n\n{items}"
