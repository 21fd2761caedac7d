"""The wheel in an environment that holds nothing but its dependencies."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import envs  # noqa: F401  (registers the tasks)
from mac_policy.demonstrations import read_minari
from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.policies.checkpoint import save_policy
from mac_policy.tasks import TASKS
from tests.scripts.helpers import ROOT
from tests.training.helpers import small

USES = """
import sys
import gymnasium, numpy as np
from mac_policy import ActionFilter, Imputer, load_policy

class Still(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, {observations}, np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, {actions}, np.float32)
    def reset(self, *, seed=None, options=None):
        return np.zeros({observations}, np.float32), {{}}
    def step(self, action):
        self.executed = action
        return np.zeros({observations}, np.float32), 0.0, False, False, {{}}

env = ActionFilter(Still(), load_policy("policy"), operator_dims=1)
env.reset(seed=0)
env.step(np.array([0.5], np.float32))
assert env.unwrapped.executed[0] == 0.5
table = np.random.default_rng(0).normal(size=(60, 3))
table[::4, 1] = np.nan
assert np.isfinite(Imputer(steps=5, random_state=0).fit_transform(table)).all()
loaded = {{name.split(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"hydra", "h5py", "minari", "rich", "matplotlib", "mujoco", "lightning_fabric"}}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def environment(wheel, folder, *extras):
    """A virtual environment with the wheel and, as links to what is installed here, what the wheel requires."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    (info,) = packages.glob("mac_policy-*.dist-info")
    for distribution in required(metadata.Distribution.at(info), extras):
        for entry in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            source = Path(distribution.locate_file(entry))
            if source.exists() and not (packages / entry).exists():
                (packages / entry).symlink_to(source)
    return folder / "bin" / "python"


def required(distribution, extras):
    """The installed distributions that one requires with its extras, and those that they require."""
    found, queue = {}, [(distribution, tuple(extras))]
    while queue:
        current, wanted = queue.pop()
        for requirement in map(Requirement, current.requires or ()):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                continue
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            key = name, tuple(sorted(requirement.extras))
            if key in found:
                continue
            try:
                found[key] = distribution if name == "mac-policy" else metadata.distribution(name)
            except metadata.PackageNotFoundError:
                continue  # such as the packages of another accelerator
            queue.append((found[key], key[1]))
    return [each for (name, _), each in found.items() if name != "mac-policy"]


def run(python, *arguments, cwd):
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MAC_DATA")}
    clean |= {"MINARI_DATASETS_PATH": str(cwd / "store"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(python), *map(str, arguments)], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_core_alone_loads_a_policy_fills_in_an_action_and_imputes_a_table(wheel, tmp_path):
    python = environment(wheel, tmp_path / "env")
    policy = small("mac")
    save_policy(policy, tmp_path / "policy")
    shapes = {"observations": policy.spaces.observation.shape, "actions": policy.spaces.action.shape}
    code, out, err = run(python, "-c", USES.format(**shapes), cwd=tmp_path)
    assert code == 0, err
    assert out.splitlines()[-1] == "[]"
    code, _, err = run(python, "-c", "from mac_policy.cli.main import main; main()", "train", cwd=tmp_path)
    assert code == 2
    assert err.splitlines() == ["error: No module named 'hydra': pip install 'mac-policy[cli]'"]


def test_the_commands_work_without_a_clone(wheel, tmp_path, monkeypatch):
    python = environment(wheel, tmp_path / "env", "cli")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    assert len(read_minari(collect_into_store(few_demonstrations(), "lab/boat-v0"))) == 4
    command = (python, "-c", "from mac_policy.cli.main import main; main()")
    code, out, err = run(*command, "--help", cwd=tmp_path)
    assert (code, "train, evaluate" in out) == (0, True), err
    code, out, err = run(*command, "train", "--help", cwd=tmp_path)
    assert (code, "--settings" in out) == (0, True), err
    code, _, err = run(*command, "train", cwd=tmp_path)
    assert code == 2
    assert err.startswith("error: the default task=kitchen-mixed is not installed: give task=, one of 'minari'")
    assert len(err.splitlines()) == 1
    options = ("task=minari", "dataset=lab/boat-v0", "policy=bc", "bc.width=8", "training.steps=5")
    code, out, err = run(*command, "train", *options, cwd=tmp_path)
    assert code == 0, err
    assert (tmp_path / "runs/lab-boat-v0/bc-s0/model.safetensors").exists()
    code, _, err = run(*command, "evaluate", "task=minari", "dataset=lab/boat-v0", cwd=tmp_path)
    assert code == 2
    assert "task=minari has no environment here: put an ActionFilter around yours" in err
    assert len(err.splitlines()) == 1


def few_demonstrations():
    return replace(TASKS["fork"].data.scripted, episodes=4)
