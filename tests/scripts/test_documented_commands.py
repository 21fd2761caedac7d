"""The commands of docs/benchmarks.md: their options exist, and what they ask for can be made."""

import re
from pathlib import Path

import pytest

from mac_policy.cli.acquire import experiment_of
from mac_policy.cli.benchmark import changed_options, make, read_benchmark
from mac_policy.rows.methods import METHODS
from tests.scripts.helpers import ROOT, composed

PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
COMMANDS = re.findall(r"^    python scripts/(\w+)\.py (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("script", "options"), COMMANDS)
def test_what_a_command_asks_for_can_be_made(script, options):
    config = composed(script, *options.split())
    if script == "benchmark":
        chosen = changed_options(config)
        assert all(comparison.arms for comparison in make(chosen, read_benchmark(chosen.benchmark)))
    elif script == "acquire":
        assert experiment_of(config).comparison.arms
    elif "run" in config:  # of an arm or a benchmark, which a command above has trained
        runs = [f"runs/benchmark/{o['benchmark']}-{o['preset']}" for s, o in map(parsed, COMMANDS) if s == "benchmark"]
        folder = Path(config["run"])
        assert str(folder) in runs or (str(folder.parent) in runs and folder.name.removesuffix("-s0") in METHODS)
    assert set(config.get("arms") or ()) <= set(METHODS)


def parsed(command):
    return command[0], dict(option.split("=", 1) for option in command[1].split())


def test_every_command_is_there_for_a_gpu_and_for_here():
    presets = {preset: PAGE.count(f"preset={preset}") for preset in ("paper", "cpu")}
    assert presets["paper"] == presets["cpu"] > 15


def test_links_lead_to_headings():
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\(#([^)]*)\)", PAGE)) <= anchors
