"""What drawing the masks and the evidence noise of a training step costs, for every configuration of a MAC policy.

    python benchmarks/mask_cost.py

Every kind of MAC policy under every preset of configs/preset, on made-up data of the kitchen's size, in bf16
where the preset says so and the processor has it. The limit is 1%.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from benchmarks.masks import milliseconds
from mac_policy.cli.composing import compose, configs
from mac_policy.cli.train_policy import COMMAND
from mac_policy.common.provenance import run_record, write_json
from mac_policy.policies.mac import MAC
from mac_policy.policies.registry import POLICIES, make_policy
from mac_policy.policies.spaces import Spaces

BOTH = Spaces.of(spaces.Box(-np.inf, np.inf, (30,), np.float32), spaces.Box(-1, 1, (9,), np.float32))


def configurations() -> list[tuple[str, str]]:
    """(policy, preset) of every MAC configuration there is."""
    policies = sorted(name for name, kind in POLICIES.items() if issubclass(kind, MAC))
    return [(policy, preset.stem) for policy in policies for preset in sorted((configs() / "preset").glob("*.yaml"))]


def share_of_masks(policy: str, preset: str, seconds: float) -> dict[str, Any]:
    """Median milliseconds of a step and of its masks, for one configuration."""
    config = compose(COMMAND, [f"policy={policy}", f"preset={preset}"])
    model = make_policy(policy, BOTH, config[policy])
    if not isinstance(model, MAC):
        raise ValueError(f"{policy} draws no masks")
    n, g = config["training"]["batch_size"], torch.Generator().manual_seed(0)
    batch = (torch.randn(n, 1, 30), torch.rand(n, model.settings.horizon, 9), torch.ones(n, model.settings.horizon))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    dtype = torch.bfloat16 if config["training"]["precision"] in ("auto", "bf16") else torch.float32

    def step() -> None:
        draws = model.draw(n, g)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype == torch.bfloat16):
            loss = model(*batch, draws)
        loss.backward()
        optimizer.step()

    steps = milliseconds(step, seconds)
    masks = milliseconds(lambda: model.own_draws(n, g), seconds)
    return {"policy": policy, "preset": preset, "batch": n, "step_ms": steps, "masks_ms": masks, "share": masks / steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each measurement, of 5 calls at least (1)")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/mask_cost"), help="folder of results.json")
    options = parser.parse_args()
    record = run_record(0) | {"rows": []}
    print(f"{'policy':10} {'preset':7} {'batch':>6} {'step ms':>9} {'masks ms':>9} {'share':>7}")
    for policy, preset in configurations():
        row = share_of_masks(policy, preset, options.seconds)
        record["rows"].append(row)
        print(
            f"{policy:10} {preset:7} {row['batch']:6} {row['step_ms']:9.1f} {row['masks_ms']:9.3f} {row['share']:7.2%}"
        )
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    main()
