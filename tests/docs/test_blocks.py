"""The code of the README and the tutorials runs as a reader would run it, with less data and fewer steps."""

import os
import shlex
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import envs  # noqa: F401  (registers the tasks)
from mac_policy import POLICIES, Spaces, make_policy, save_policy
from mac_policy.operators.registry import OPERATORS
from mac_policy.tasks import TASKS
from tests.docs.pages import ROOT, blocks
from tests.scripts.helpers import run_here

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
LESS = {
    "train_policy.py": ["training.steps=20", "training.batch_size=32"],
    "shared_autonomy.py": ["workers=1", "video=false"],
    "inspect_data.py": [],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with a data store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    monkeypatch.syspath_prepend(str(tmp_path))
    torch.manual_seed(0)
    before = [(registry, dict(registry)) for registry in (POLICIES, OPERATORS, TASKS)]
    yield tmp_path
    for registry, kinds in before:
        registry._kinds = kinds
    for name in [name for name in sys.modules if name.split(".")[0] == "my_lab"]:
        del sys.modules[name]


def shortened(command):
    """Script and options of a command with less to do; None for one that needs data which are not at hand."""
    words = shlex.split(command, comments=True)
    script = words[1].removeprefix("scripts/")
    if script not in LESS:
        return None
    less = [*LESS[script]]
    if script == "train_policy.py":
        less += ["data.episodes=30"] * ("task=fork" in words)
        less += ["mac.width=16", "mac.query_width=16"] * ("my_lab.policies" not in words[-1])
    return [script, *(word if not word.startswith("episodes=") else "episodes=2" for word in words[2:]), *less]


def shortened_code(code):
    """The code with less training."""
    return code.replace("Imputer(", "Imputer(steps=20, ").replace("TableModel(names", "TableModel(steps=20, names")


def run(block, namespace, page, folder):
    """Run a block; Python blocks of a page share their names."""
    if block.language == "python":
        exec(compile("\n" * (block.line - 1) + block.code, page, "exec"), namespace)
    for command in filter(None, block.code.splitlines() if block.language == "bash" else ()):
        if (words := shortened(command)) is not None:
            code, out, err = run_here(*words, cwd=folder, PYTHONPATH=os.pathsep.join([str(ROOT), str(folder)]))
            assert code == 0, f"{page}: {command}\n{out}{err}"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs(page, folder):
    namespace = {"__name__": "tutorial"}
    for block in blocks(page):
        run(block, namespace, str(page), folder)


def test_the_python_of_the_readme_runs(folder):
    """What the reader brings: trained policies, a robot, an observation, a command, a table with holes."""
    env_spaces = spaces.Box(-1, 1, (6,), np.float32), spaces.Box(-1, 1, (4,), np.float32)
    for name in ("kitchen-mixed", "your-data"):
        save_policy(make_policy("mac", Spaces.of(*env_spaces), {"width": 16, "query_width": 16}), f"runs/{name}/mac-s0")
    gymnasium.register("YourRobot-v0", entry_point=lambda: Robot(*env_spaces))
    table = np.random.default_rng(0).normal(size=(60, 3))
    command, mask = np.array([0.25, 0, 0, 0], np.float32), np.array([True, False, False, False])
    namespace = {"observation": np.zeros(6, np.float32), "command": command, "mask": mask}
    namespace["table"] = np.where(np.arange(180).reshape(60, 3) % 7 == 0, np.nan, table)
    try:
        for block in blocks(ROOT / "README.md"):
            if block.language == "python":
                exec(shortened_code(block.code), namespace)
    finally:
        del gymnasium.registry["YourRobot-v0"]
    assert namespace["action"][0] == 0.25
    assert namespace["info"]["action_filter"]["mask"].tolist() == [True, True, False, False]
    assert np.isfinite(namespace["whole"]).all()
    assert namespace["draws"].shape == (20, 60, 3)


class Robot(gymnasium.Env):
    """Stands still."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(6, np.float32), {}

    def step(self, action):
        return np.zeros(6, np.float32), 0.0, False, False, {}
