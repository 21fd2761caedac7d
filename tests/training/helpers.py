"""A small task to train on, and a process to train in that can be killed."""

import subprocess
import sys
import textwrap
from pathlib import Path

import torch

from envs.fork.environment import Fork, record_fork_episode
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from mac_policy.training.settings import TrainSettings

ROOT = Path(__file__).parents[2]
SMALL = {
    "bc": {"width": 16, "depth": 2},
    "mac": {"width": 16, "depth": 2, "query_width": 16, "components": 4},
    "ibc": {"width": 16, "depth": 2, "counter_examples": 8},
}


def demonstrations(episodes=20):
    recorded = [record_fork_episode(seed=0, index=i) for i in range(episodes)]
    return Demonstrations.of(recorded, name="fork", kind="scripted")


def small(kind="mac", seed=0, **settings):
    env = Fork()
    return make_policy(kind, Spaces.of(env.observation_space, env.action_space), SMALL[kind] | settings, seed)


def quickly(**settings):
    defaults = {"steps": 60, "batch_size": 32, "validations": 3, "precision": "fp32", "accelerator": "cpu"}
    return TrainSettings(**(defaults | settings))


def same(first, second):
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def start(code):
    """A process with the helpers of this file imported."""
    lines = ["import torch; torch.set_num_threads(1)", "from tests.training.helpers import *", textwrap.dedent(code)]
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
