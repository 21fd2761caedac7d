"""What the pages name exists: options, make targets, files, links, public names. The picture shows the imports."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import envs  # noqa: F401  (registers the tasks)
import mac_policy
from benchmarks.options import add_commanded
from docs.draw_layers import PICTURE, draw, imports
from mac_policy.cli.composing import compose
from tests.docs.pages import PAGES, ROOT, commands, make_targets
from tests.scripts.helpers import command as command_of

SCRIPT_COMMANDS = sorted({tuple(c) for page in PAGES for c in commands(page) if c[1].startswith("scripts/")})
BENCHMARK_COMMANDS = sorted({tuple(c) for page in PAGES for c in commands(page) if not c[1].startswith("scripts/")})
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def named(page):
    return str(Path(page).relative_to(ROOT))


@pytest.mark.parametrize("command", SCRIPT_COMMANDS, ids=" ".join)
def test_options_of_a_script_exist(command):
    if any("my_lab" in word for word in command):
        pytest.skip("names a file of the reader's: the tutorial's test runs it")
    options = [first_of_a_sweep(word) for word in command[2:] if not word.startswith("-")]
    compose(command_of(Path(command[1]).name), options)


def first_of_a_sweep(option):
    """`seed=0,1,2` stands for three runs."""
    key, _, value = option.partition("=")
    return option if value.startswith(("[", "{", "'")) else f"{key}={value.split(',')[0]}"


@pytest.mark.parametrize("command", BENCHMARK_COMMANDS, ids=" ".join)
def test_options_of_a_benchmark_exist(command):
    source = (ROOT / command[1]).read_text()
    if "add_commanded" in source:
        source += inspect.getsource(add_commanded)
    for option in (word for word in command[2:] if word.startswith("--")):
        assert f'"{option}"' in source, option


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(make_targets(page)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, target


def test_the_picture_of_the_layers_is_drawn_from_the_imports():
    assert PICTURE.read_text() == draw(imports()), "run python docs/draw_layers.py"


def test_the_architecture_names_every_room_and_only_files_that_exist():
    table = ARCHITECTURE.split("## Rooms")[1].split("##")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert named == {*imports(), "configs"}
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", ARCHITECTURE):
        assert (ROOT / "mac_policy" / name).exists() or (ROOT / name).exists() or any(ROOT.glob(f"*/*/{name}")), name


def test_an_extension_touches_at_most_two_files():
    rows = re.findall(
        r"^\| an? ([^|]*) \| ([^|]*) \|$", ARCHITECTURE.split("## What an extension costs")[1], re.MULTILINE
    )
    assert len(rows) >= 8
    for what, files in rows:
        assert len(re.findall(r"\bone (?:file|line|entry|reader)\b", files)) <= 2, what


def test_the_reference_has_every_public_name():
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    documented = {name.rsplit(".", 1)[-1] for name in re.findall(r"^::: (\S+)", pages, re.MULTILINE)}
    assert set(mac_policy.__all__) <= documented


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 15
    for page in pages:  # a reader without a network misses nothing
        assert not re.search(r'(?:src="|<link[^>]*href=")https?://', page.read_text()), page.name
