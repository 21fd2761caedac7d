"""The processes that train together, and their device: one process on a CPU, or Lightning Fabric for all else."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from mac_policy.training.settings import TrainSettings

FEW_PROCESSES = 8
"""So many may share any CPU."""


class Fabric:
    """One process on a CPU, with torch alone: the part of Lightning Fabric's interface that training and evaluation
    use, so that `lightning_fabric.Fabric` can take its place. Both train the same weights, bit by bit.

    >>> Fabric().world_size
    1
    """

    world_size, global_rank, is_global_zero = 1, 0, True

    def __init__(self, *, bf16: bool = False) -> None:
        self.device = torch.device("cpu")
        self.bf16 = bf16

    def setup(self, module: nn.Module, *optimizers: torch.optim.Optimizer) -> Any:
        """The module, whose forward pass runs in this precision, and the optimisers."""
        return _InBfloat16(module) if self.bf16 else module, *optimizers

    def backward(self, tensor: Tensor) -> None:
        tensor.backward()

    def clip_gradients(
        self, module: Any, optimizer: torch.optim.Optimizer, *, max_norm: float, error_if_nonfinite: bool
    ) -> Tensor:
        """Clip to a norm; the norm before."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=error_if_nonfinite)

    def all_reduce(self, data: Tensor, *, reduce_op: str = "mean") -> Tensor:
        return data

    def broadcast(self, obj: Any) -> Any:
        return obj

    def barrier(self) -> None:
        """There is no process to wait for."""

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast("cpu", dtype=torch.bfloat16) if self.bf16 else nullcontext()

    @contextmanager
    def rank_zero_first(self) -> Iterator[None]:
        yield


class _InBfloat16(nn.Module):
    """A module with a loss in single precision, computed in mixed precision."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: Tensor = self.module(*_to_bfloat16(inputs))
        return loss.to(torch.get_default_dtype())


def _to_bfloat16(data: Any) -> Any:
    """Tensors of floating point numbers, also in (named) tuples and dictionaries, as bfloat16; all else as it is."""
    if isinstance(data, Tensor):
        return data.to(torch.bfloat16) if data.is_floating_point() else data
    if isinstance(data, tuple):
        parts = [_to_bfloat16(part) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else tuple(parts)
    return {key: _to_bfloat16(part) for key, part in data.items()} if isinstance(data, dict) else data


def make_fabric(settings: TrainSettings) -> Fabric:
    """`Fabric` for one process on a CPU; otherwise Lightning Fabric, with its processes launched."""
    if (settings.devices, settings.nodes, settings.strategy) == (1, 1, "auto") and on_cpu(settings.accelerator):
        return Fabric(bf16=settings.fabric_precision() == "bf16-mixed")
    if find_spec("lightning_fabric") is None:
        raise ValueError(
            f"accelerator={settings.accelerator!r}, devices={settings.devices!r}, nodes={settings.nodes}, "
            f"strategy={settings.strategy!r} need the package lightning-fabric: install it, or train in one process "
            "with accelerator='cpu'"
        )
    if on_cpu(settings.accelerator):
        check_processes(settings.devices)
    if settings.nodes > 1 and not LAUNCHERS & os.environ.keys():
        raise ValueError(
            f"training.nodes={settings.nodes} waits for processes on other machines: start it on each of them with "
            "torchrun, or by SLURM"
        )
    from lightning_fabric import Fabric as LightningFabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    try:
        launched: Any = LightningFabric(
            accelerator=settings.accelerator,
            devices=settings.devices,
            num_nodes=settings.nodes,
            strategy=settings.strategy,
            precision=settings.fabric_precision(),
        )
        launched.launch()
    except (ImportError, TypeError, RuntimeError, OverflowError, MisconfigurationException) as error:
        raise ValueError(
            f"training.accelerator={settings.accelerator}, devices={settings.devices}, nodes={settings.nodes}, "
            f"strategy={settings.strategy} cannot be used here: {str(error).partition(chr(10))[0]}"
        ) from error
    if launched.world_size > 1:
        atexit.register(leave_group)
    fabric: Fabric = launched
    return fabric


LAUNCHERS = {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "SLURM_NTASKS"}
"""Variables of the environment, one of which a launcher on several machines sets."""


def check_processes(devices: int | str) -> None:
    """ValueError where training on a CPU would start many more processes than it has cores.

    >>> from mac_policy.training.fabric import check_processes
    >>> check_processes(2)
    """
    most = max(FEW_PROCESSES, 2 * (os.cpu_count() or 1))
    if str(devices).isdecimal() and int(devices) > most:
        raise ValueError(
            f"training.devices must be at most {most} on this machine's CPU, which has {os.cpu_count()} cores, "
            f"got {devices}: each is a process of its own"
        )


def on_cpu(accelerator: str) -> bool:
    """Whether the name of an accelerator stands for the CPU here: 'auto' does where there is nothing else."""
    others = torch.cuda.is_available() or torch.backends.mps.is_available() or find_spec("torch_xla") is not None
    return accelerator == "cpu" or (accelerator == "auto" and not others)


def leave_group() -> None:
    """Leave the process group: a process that exits while gloo's threads run may abort."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
