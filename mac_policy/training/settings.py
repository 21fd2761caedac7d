"""The settings of a training."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal

import torch

from mac_policy.common.checks import check_count, check_range, is_number
from mac_policy.common.settings import Count, Natural, NonNegative, Rows, Settings

# These settings change how fast a training runs and what it writes, not what it learns.
WITHOUT_EFFECT = ("save_seconds", "tensorboard", "devices", "nodes", "strategy", "accelerator")


def check_devices(name: str, value: Any) -> None:
    """ValueError for what is no number of devices: 1, 2, ..., -1 or 'auto' for all, or indices as in '0,1'."""
    if isinstance(value, str) and value != "auto" and not re.fullmatch(r"\d+(,\d+)*", value):
        raise ValueError(f"{name} must be a number of devices, 'auto', or indices such as '0,1', got {value!r}")
    if is_number(value) and value != -1:
        check_count(name, value)


@dataclass(frozen=True)
class TrainSettings(Settings):
    """steps: optimiser steps; 0 means `epochs` passes over the data
    batch_size: rows of a step, all processes together
    learning_rate, warmup, schedule: the peak rate; its linear rise, as a share of the run (above 1: as a number of
        steps); the course after it, 'cosine' or 'linear' (both to zero) or 'constant'
    optimizer, weight_decay, clip: 'adam' or 'adamw'; the largest gradient norm (0 = no clipping)
    ema: decay of the averaged weights, which are validated and saved (0 = no average)
    precision: 'fp32', 'bf16', or 'auto' (bf16 where the processor supports it)
    validation: share of the episodes held out; validations: their number in a run; patience: validations without
        a better loss before the run stops early (0 = never)
    weights: the weights of the finished model: of the 'last' step or of the 'best' validation
    save_seconds: seconds between two saved states to resume from
    accelerator, devices, nodes, strategy: as in Lightning Fabric
    tensorboard: whether TensorBoard event files are written, too

    >>> TrainSettings(steps=1000, batch_size=64).schedule
    'cosine'
    """

    prefix: ClassVar[str] = "training."

    steps: Natural = 4000
    epochs: Natural = 0
    batch_size: Rows = 256
    learning_rate: NonNegative = 1e-3
    warmup: NonNegative = 0.02
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    optimizer: Literal["adam", "adamw"] = "adamw"
    weight_decay: NonNegative = 1e-4
    clip: NonNegative = 1.0
    ema: Annotated[float, partial(check_range, low=0, high=0.999999)] = 0.999
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    validation: Annotated[float, partial(check_range, low=0, high=0.9)] = 0.05
    validations: Count = 20
    patience: Natural = 0
    weights: Literal["last", "best"] = "last"
    save_seconds: NonNegative = 30.0
    accelerator: str = "auto"
    devices: Annotated[int | str, check_devices] = 1
    nodes: Count = 1
    strategy: str = "auto"
    tensorboard: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.steps == 0) == (self.epochs == 0):
            raise ValueError(f"give either steps or epochs, got steps={self.steps} and epochs={self.epochs}")
        if self.tensorboard and find_spec("tensorboard") is None:
            raise ValueError("tensorboard=true needs the package tensorboard: pip install tensorboard")

    def identity(self) -> dict[str, Any]:
        """The settings that the trained weights depend on, as plain JSON."""
        return {key: value for key, value in asdict(self).items() if key not in WITHOUT_EFFECT}

    def total_steps(self, rows: int) -> int:
        """Optimiser steps of a run on this many rows."""
        return self.steps or max(1, self.epochs * rows // self.batch_size)

    def fabric_precision(self) -> Literal["bf16-mixed", "32-true"]:
        """The precision's name in Lightning Fabric."""
        wanted = self.precision == "bf16" or (self.precision == "auto" and has_bf16(self.accelerator))
        return "bf16-mixed" if wanted else "32-true"


def has_bf16(accelerator: str = "auto") -> bool:
    """Whether the device computes in bfloat16 faster than in single precision."""
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return bool(torch.cuda.get_device_capability()[0] >= 8)
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
