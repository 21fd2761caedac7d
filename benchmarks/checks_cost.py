"""What the checks of files cost: the time of reading and writing with them and without, interleaved in one process.

    OMP_NUM_THREADS=1 python benchmarks/checks_cost.py

CPU time of this process. Without: safetensors alone, a policy built without a limit, JSON lines without a schema.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from gymnasium.spaces import Box
from safetensors.torch import load, save

from mac_policy import Spaces
from mac_policy.common.files import read_tensors, write_bytes, write_tensors
from mac_policy.common.statistics import summary
from mac_policy.evaluation.episode_store import EpisodeRecord, EpisodeStore
from mac_policy.policies.registry import find_policy, make_policy, make_settings

ROUNDS = 30


def seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def record(episode: int, steps: int = 280) -> EpisodeRecord:
    return EpisodeRecord(
        key="0123456789abcdef", arm="operator+mac", training_seed=0, group=(0, 100), episode=episode, seed=episode,
        reward=3.0, completed=("kettle",), steps=steps, held_dims=4.0, fallback=0, invalid=0,
        fill_ms=tuple(float(x) for x in np.random.default_rng(episode).random(steps)), wished=(1,) * steps,
        assumed=(2,) * steps,
    )  # fmt: skip


def pairs(folder: Path) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """What is timed: with the checks, and without."""
    tensors = {f"layer{i}": torch.randn(1000, 1000) for i in range(4)}
    plain, sealed = folder / "plain", folder / "sealed"
    write_bytes(plain, save(tensors))
    write_tensors(sealed, tensors)
    spaces, store = Spaces.of(Box(-1, 1, (60,)), Box(-1, 1, (9,))), EpisodeStore(folder)
    store.append(record(i) for i in range(100))
    lines = store.path.read_text
    return {
        "write 16 MB of weights": (lambda: write_tensors(sealed, tensors), lambda: write_bytes(plain, save(tensors))),
        "read 16 MB of weights": (lambda: read_tensors(sealed), lambda: load(plain.read_bytes())),
        "build a mac policy": (
            lambda: make_policy("mac", spaces), lambda: find_policy("mac")(spaces, make_settings("mac"))
        ),
        "read 100 episodes": (store.read, lambda: [json.loads(line) for line in lines().splitlines()]),
    }  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name, (checked, unchecked) in pairs(Path(folder)).items():
            checked(), unchecked()
            found = np.array([(seconds(checked), seconds(unchecked)) for _ in range(ROUNDS)])
            ratio = summary([found[:, 0] / found[:, 1]], True)
            with_checks, without = 1e3 * np.median(found, 0)
            print(f"{name}: {with_checks:.2f} ms, without {without:.2f} ms, ratio {ratio}")


if __name__ == "__main__":
    main()
