"""bf16 against fp32: training throughput of the paper's MLP at its batch of 4096, and whether the losses agree.

python benchmarks/bf16.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from lightning_fabric import Fabric

import envs  # noqa: F401  (registers the tasks)
from mac_policy.common.provenance import run_record, write_json
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies.fit import Trainer
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from mac_policy.tasks import TASKS
from mac_policy.training.settings import TrainSettings, has_bf16

FABRIC = {"fp32": "32-true", "bf16": "bf16-mixed"}


def make_trainer(demos: Demonstrations, precision: str, options: argparse.Namespace) -> Trainer:
    """The paper's policy and training, from the same first weights for both precisions."""
    both = Spaces.of(
        spaces.Box(-np.inf, np.inf, (demos.observation_dim,), np.float32),
        spaces.Box(-1.0, 1.0, (demos.action_dim,), np.float32),
    )
    policy = make_policy("mac_paper", both, {"width": options.width, "depth": options.depth}, seed=0)
    settings = TrainSettings(
        steps=options.steps,
        batch_size=options.batch,
        learning_rate=5e-4,
        optimizer="adam",
        schedule="constant",
        warmup=0.0,
        weight_decay=0.0,
        clip=0.0,
        ema=0.0,
    )
    fabric = Fabric(accelerator=options.accelerator, devices=1, precision=FABRIC[precision])
    return Trainer(policy, demos, settings, Path(options.out), seed=0, fabric=fabric, quiet=True)


def measure(trainers: dict[str, Trainer], steps: int) -> dict[str, Any]:
    """Losses and seconds of steps taken in turn, so that a busy machine is busy for both precisions."""
    losses: dict[str, list[float]] = {precision: [] for precision in trainers}
    seconds: dict[str, list[float]] = {precision: [] for precision in trainers}
    for step in range(steps):
        for precision, trainer in trainers.items():
            began = time.perf_counter()
            losses[precision].append(trainer.advance())
            seconds[precision].append(time.perf_counter() - began)
            note = f"loss {losses[precision][-1]:.4f}, {seconds[precision][-1]:.2f} s"
            print(f"step {step} {precision}: {note}", flush=True)
    return {
        precision: {
            "loss": losses[precision],
            "seconds": seconds[precision],
            "seconds_per_step": float(np.median(seconds[precision][1:])),
            "fastest_step": min(seconds[precision]),
        }
        for precision in trainers
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="kitchen-complete")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--out", default="runs/bf16")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    demos = TASKS.find(options.task).load_demonstrations()
    found = measure({precision: make_trainer(demos, precision, options) for precision in FABRIC}, options.steps)
    fastest = found["fp32"]["fastest_step"] / found["bf16"]["fastest_step"]
    ratio = found["fp32"]["seconds_per_step"] / found["bf16"]["seconds_per_step"]
    gaps = np.abs(np.array(found["fp32"]["loss"]) - np.array(found["bf16"]["loss"]))
    record = run_record(0, demos.source.as_dict()) | {
        "arms": found,
        "throughput_ratio": ratio,
        "throughput_ratio_fastest_steps": fastest,
        "largest_loss_difference": float(gaps.max()),
        "processor_has_bf16": has_bf16(options.accelerator),
        "threads": options.threads,
    }
    for precision, row in found.items():
        rate = options.batch / row["seconds_per_step"]
        print(f"{precision}: {row['seconds_per_step']:.3f} s a step, {rate:,.0f} rows a second")
    print(
        f"bf16 is {ratio:.2f} times as fast (fastest steps: {fastest:.2f}); "
        f"the losses differ by at most {gaps.max():.4f}"
    )
    print(write_json(Path(options.out) / "results.json", record))


if __name__ == "__main__":
    main()
