"""Untrained policies for the fork in the folders where training puts them, and what is needed to roll them out."""

from pathlib import Path

from envs.fork.task import ForkTask
from mac_policy.evaluation.arms import Runs, make_teams, parse_arm
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import OperatorChoice
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.fit import fit_statistics
from tests.training.helpers import demonstrations, small

FORK = ForkTask().environment_for()


def save_run(root, kind, seed, name=None, **settings):
    """A policy fitted to the fork's spaces and data ranges, with the weights of its seed."""
    demos = demonstrations(4)
    policy = small(kind, seed, **settings)
    fit_statistics(policy, demos)
    source = {"name": "fork", "source": "scripted", "sha256": "5" * 64, "episodes": 4, "steps": 48}
    return save_policy(policy, Path(root) / "fork" / f"{name or kind}-s{seed}", dataset=source)


def save_all(root, seeds=(0,)):
    """What shared_autonomy.py needs for these training seeds."""
    for seed in seeds:
        save_run(root, "bc", seed)
        save_run(root, "bc", seed + 100)
        save_run(root, "mac", seed, decode="sample")
    return root


def operator(kind="expert", dims=1, **settings):
    return OperatorChoice(make_kind(kind, settings), OperatorDims.parse(dims, 2), task=ForkTask())


def teams(root, *arms, seeds=(0,), acting=None, **settings):
    runs = Runs(Path(root), "fork", settings=settings)
    return make_teams([parse_arm(arm) for arm in arms], list(seeds), runs, acting or operator())


def rollout(episodes=7, together=3, **settings):
    return Rollout(FORK, episodes, together=together, **settings)
