"""What makes two runs the same, so that one may go on where the other stopped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mac_policy.policies.policy import Policy
from mac_policy.training.settings import TrainSettings
from mac_policy.training.state import ResumeError

# These change how fast a run goes and what it writes, not what it learns.
FREE = ("save_seconds", "tensorboard", "devices", "nodes", "strategy", "accelerator")


def of_run(policy: Policy, settings: TrainSettings, source: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Policy, settings, data and seed as plain JSON."""
    training = {key: value for key, value in dataclasses.asdict(settings).items() if key not in FREE}
    found: dict[str, Any] = json.loads(
        json.dumps(
            {
                "policy": policy.kind,
                "settings": dataclasses.asdict(policy.settings),
                "training": training,
                "sha256": source.get("sha256"),
                "seed": seed,
            }
        )
    )
    return found


def of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same, read from a policy's config.json."""
    facts = config["training"]
    return {
        "policy": config["policy"],
        "settings": config["settings"],
        "training": facts.get("training"),
        "sha256": config["dataset"].get("sha256"),
        "seed": facts.get("seed"),
    }


def check_same_run(folder: Path, want: Mapping[str, Any], have: Mapping[str, Any]) -> None:
    """ResumeError naming the first thing that differs."""
    for key, value in want.items():
        if have.get(key) != value:
            raise ResumeError(
                f"{folder} holds another run: {_difference(key, have.get(key), value)}. "
                "Choose another folder, or resume=false to start afresh"
            )


def _difference(key: str, have: Any, want: Any) -> str:
    if isinstance(have, dict) and isinstance(want, dict):
        for name in {**have, **want}:
            if have.get(name) != want.get(name):
                return f"{key}.{name} was {have.get(name)!r} and is now {want.get(name)!r}"
    return f"{key} was {have!r} and is now {want!r}"
