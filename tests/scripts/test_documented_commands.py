"""The commands of docs/benchmarks.md: their options exist, and what they ask for can be made."""

import re
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from mac_policy.rows.methods import METHODS
from tests.scripts.helpers import ROOT

PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
COMMANDS = re.findall(r"^    python scripts/(\w+)\.py (.*)$", PAGE, re.MULTILINE)
CONFIGS = {
    "benchmark": ("benchmark", "_benchmark"),
    "acquire": ("acquire", "_acquire"),
    "few_steps": ("few_steps", "_few_steps"),
    "completions": ("", "completions"),
    "generation": ("", "generation"),
    "mask_distribution": ("", "mask_distribution"),
}


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import acquire
    import benchmark

    return {"benchmark": lambda c: made(benchmark, c), "acquire": lambda c: [acquire.experiment_of(c).comparison]}


def made(benchmark, config):
    plain = OmegaConf.to_container(config)
    return benchmark.make(plain, benchmark.read_benchmark(plain["benchmark"]))


@pytest.mark.parametrize(("script", "options"), COMMANDS)
def test_what_a_command_asks_for_can_be_made(scripts, script, options):
    folder, name = CONFIGS[script]
    with initialize_config_dir(str(ROOT / "configs" / folder), version_base=None):
        config = compose(name, options.split())
    if script in scripts:
        assert all(comparison.arms for comparison in scripts[script](config))
    elif "run" in config:  # of an arm or a benchmark, which a command above has trained
        runs = [f"runs/benchmark/{o['benchmark']}-{o['preset']}" for s, o in map(parsed, COMMANDS) if s == "benchmark"]
        folder = Path(config.run)
        assert str(folder) in runs or (str(folder.parent) in runs and folder.name.removesuffix("-s0") in METHODS)
    if "arms" in config and config.arms:
        assert set(config.arms) <= set(METHODS)


def parsed(command):
    return command[0], dict(option.split("=", 1) for option in command[1].split())


def test_every_command_is_there_for_a_gpu_and_for_here():
    presets = {preset: PAGE.count(f"preset={preset}") for preset in ("paper", "cpu")}
    assert presets["paper"] == presets["cpu"] > 15


def test_links_lead_to_headings():
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\(#([^)]*)\)", PAGE)) <= anchors
