"""Small commands of every kind, and what must be the same at the end of each."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from envs.fork.task import ForkTask
from mac_policy.common.files import read_tensors
from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.demonstrations.minari_read import read_minari
from mac_policy.demonstrations.minari_store import store_root
from mac_policy.demonstrations.task_data import Scripted
from mac_policy.evaluation.comparison import ComparisonSettings, plan
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.measurement import measure
from mac_policy.operators.registry import make_kind
from mac_policy.policies.fit import train
from mac_policy.rows.likelihoods.evaluate import LIKELIHOOD
from tests.demonstrations.helpers import record
from tests.evaluation.fork_runs import save_all
from tests.rows import helpers as rows
from tests.training.helpers import demonstrations, quickly, small

QUIET = Console(quiet=True)
DEMOS = demonstrations(4)
SET = "lab/made-v0"


class Work(NamedTuple):
    """prepare: what has to be there before; run: the command, into a folder; ends: what it leaves, without times"""

    prepare: Callable[[Path], Any]
    run: Callable[[Path], Any]
    ends: Callable[[Path], Any]


def nothing(folder: Path) -> None:
    """No preparation."""


# ---- training ----


def train_small(folder: Path) -> None:
    settings = quickly(steps=60, validations=6, ema=0.9, weights="best", save_seconds=0.01)
    train(small("mac"), DEMOS, settings, folder / "run", quiet=True)


def trained(folder: Path) -> Any:
    run = folder / "run"
    with (run / "metrics.csv").open() as file:
        timeless = [{k: v for k, v in row.items() if k not in ("seconds", "rate")} for row in csv.DictReader(file)]
    config = json.loads((run / "config.json").read_text())
    config["training"].pop("seconds")
    weights = [(run / name).read_bytes() for name in ("model.safetensors", "best.safetensors")]
    return sorted(path.name for path in run.iterdir()), timeless, config, weights


# ---- collection ----


def collect_small(folder: Path, overwrite: bool = False) -> None:
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "store")
    scripted = Scripted(record, episodes=12, seed=3)
    collect_into_store(scripted, SET, workers=1, overwrite=overwrite, keep=not overwrite, console=QUIET)


def collected(folder: Path) -> Any:
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "store")
    left = [path.name for path in store_root().iterdir() if path.name.startswith(".incoming")]
    work = [path.name for path in (store_root() / ".collecting").iterdir()]
    return read_minari(SET).source.sha256, left, work


# ---- evaluation ----


def save_policies(folder: Path) -> None:
    save_all(folder / "runs")


def evaluate_small(folder: Path) -> None:
    runs = folder / "runs"
    settings = ComparisonSettings(
        arms=("operator+mac", "operator+bc"), episodes=12, envs=2, workers=1, video=False, runs=runs
    )
    measure(plan(ForkTask(), make_kind("expert", {}), 1, settings, folder / "out"), lambda _: None)


def evaluated(folder: Path) -> Any:
    records = EpisodeStore(folder / "out").read()
    plain = sorted(json.dumps(dataclasses.asdict(each) | {"fill_ms": len(each.fill_ms)}) for each in records)
    found = json.loads((folder / "out" / "results.json").read_text())
    means = {arm: {key: value for key, value in it.items() if key != "latency_ms"} for arm, it in found["arms"].items()}
    return plain, len(plain) == len(set(plain)), len(plain), means, found["paired"]


# ---- benchmark ----


def benchmark_small(folder: Path) -> None:
    rows.compare(folder / "bench", steps=30, save_seconds=0.005, weights="best").run(rows.one_process(), quiet=True)


def benchmarked(folder: Path) -> Any:
    arms = sorted(path for path in (folder / "bench").iterdir() if path.is_dir())
    weights = [(arm / "model.safetensors").read_bytes() for arm in arms]
    values = [{k: v.tolist() for k, v in read_tensors(arm / LIKELIHOOD)[0].items()} for arm in arms]
    found = json.loads((folder / "bench" / "results.json").read_text())
    return weights, values, {arm: it["metrics"] for arm, it in found["arms"].items()}, found["paired"]


WORKS = {
    "training": Work(nothing, train_small, trained),
    "collection": Work(nothing, collect_small, collected),
    "evaluation": Work(save_policies, evaluate_small, evaluated),
    "benchmark": Work(nothing, benchmark_small, benchmarked),
}
