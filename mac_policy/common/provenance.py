"""Provenance: what every results.json says about how it was made, and how it is written."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from mac_policy.common.files import write_text

SCHEMA = 1
PACKAGES = ("torch", "numpy", "safetensors", "mujoco", "gymnasium", "gymnasium-robotics", "minari", "mac-policy")


def command_words(script: str, word: str) -> str:
    """How a command is started: `mac-policy <word>` where this process was, else `python scripts/<script>.py`."""
    return f"mac-policy {word}" if Path(sys.argv[0]).stem == "mac-policy" else f"python scripts/{script}.py"


def run_record(seed: int | None, dataset: dict[str, Any] | None = None) -> dict[str, Any]:
    """The head of a results.json: schema, command, time, seed, versions, machine, data set."""
    return {
        "schema": SCHEMA,
        "command": shlex.join(["python", *sys.argv]),
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": seed,
        "versions": versions(),
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count()},
        "dataset": dataset,
    }


def versions() -> dict[str, str]:
    """Python and the installed packages that can change a number."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package.replace("-", "_")] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """The processor's model as the system names it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def write_json(path: Path, record: dict[str, Any]) -> Path:
    """Write JSON atomically, see `write_bytes`; numbers must be finite."""
    text = json.dumps(record, indent=2, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path
