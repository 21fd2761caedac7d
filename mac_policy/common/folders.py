"""Folders of trained models: config.json, plain JSON with a schema, and model.safetensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from mac_policy.common import files
from mac_policy.common.files import CheckpointError
from mac_policy.common.reading import checked, memory, read_json
from mac_policy.common.settings import Natural, NonNegative, Settings

if TYPE_CHECKING:
    from torch import Tensor, nn

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SCHEMA = 1
HEADER = 1 << 20
"""Bytes that a file of weights may have besides its numbers."""
LARGEST_WEIGHT = 1e9
"""No trained parameter has a larger size; with much larger ones networks overflow."""


class Checked:
    """A module that says whether what it was filled with can be used."""

    def check(self) -> None:
        """ValueError where it cannot."""
        raise NotImplementedError


@dataclass(frozen=True)
class Config(Settings):
    """What every config.json holds. schema: of the file; versions: of the packages that wrote it"""

    schema: int


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class TrainingFacts(Settings):
    """The facts of a training that a command needs when it finds the model again; a file may lack them."""

    steps: Natural = 0
    seconds: NonNegative = 0.0
    finished: bool = False
    validation_loss: float | None = None

    @staticmethod
    def of(training: Mapping[str, Any], where: str) -> TrainingFacts:
        names = ("steps", "seconds", "finished", "validation_loss")
        known = {name: training[name] for name in names if name in training}
        return checked(TrainingFacts, known, f"{where}: training", CheckpointError)


def read_config(folder: Path, what: str, schema: type[C]) -> tuple[C, dict[str, Any]]:
    """config.json of the folder of `what`, such as 'a TableModel': checked, and as it is stored. CheckpointError where
    a key is missing, unknown or has another type."""
    path = folder / CONFIG
    try:
        values = read_json(path, CheckpointError)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(f"{folder} is not {what}: it holds no {CONFIG}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not {type(values).__name__}")
    if values.get("schema", SCHEMA) != SCHEMA:
        raise CheckpointError(f"{path} has schema {values['schema']!r}; this version reads {SCHEMA}")
    return checked(schema, values, str(path), CheckpointError), values


def read_weights(path: Path, largest: int | None = None) -> dict[str, Tensor]:
    """The tensors of a file of weights. CheckpointError where they cannot be read."""
    try:
        return files.read_tensors(path, largest)[0]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(f"{path.parent} holds no {path.name}") from error


def fill(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load tensors into a module of the same names, shapes and kinds of numbers; CheckpointError naming the first that
    does not fit, that holds NaN, or infinity where the module has none, or with which the module cannot be used."""
    want = model.state_dict()
    if missing := sorted(want.keys() - tensors.keys()):
        raise CheckpointError(f"{path} lacks the tensor {missing[0]!r} ({len(missing)} missing)")
    if unknown := sorted(tensors.keys() - want.keys()):
        raise CheckpointError(f"{path} holds a tensor that its {CONFIG} does not ask for: {unknown[0]!r}")
    ready = {name: fitting(name, tensor, want[name], path) for name, tensor in tensors.items()}
    put(model, ready, path)


def put(model: nn.Module, ready: Mapping[str, Tensor], path: Path) -> None:
    """Load tensors that fit; CheckpointError for a parameter that is too large, or with which the module cannot be
    used."""
    for name, parameter in model.named_parameters():
        if name in ready and parameter.is_floating_point() and bool((ready[name].abs() > LARGEST_WEIGHT).any()):
            raise CheckpointError(f"{path}: {name!r} holds a parameter of a size above {LARGEST_WEIGHT:g}")
    model.load_state_dict(ready)
    for module in model.modules():
        if isinstance(module, Checked):
            try:
                module.check()
            except ValueError as error:
                raise CheckpointError(f"{path}: {error}") from error


def fitting(name: str, tensor: Tensor, want: Tensor, where: Path) -> Tensor:
    """The tensor in the precision of `want`; CheckpointError where it is of another shape or kind, or not finite."""
    if tensor.shape != want.shape:
        raise CheckpointError(
            f"{where}: {name!r} has shape {tuple(tensor.shape)}, the config asks for {tuple(want.shape)}"
        )
    if tensor.dtype != want.dtype and not (tensor.is_floating_point() and want.is_floating_point()):
        raise CheckpointError(f"{where}: {name!r} has the type {tensor.dtype}, the config asks for {want.dtype}")
    ready = tensor.to(want.dtype)
    if ready.is_floating_point() and not bool((ready.isfinite() | (ready == want) & want.isinf()).all()):
        raise CheckpointError(f"{where}: {name!r} holds NaN or infinity")
    return ready


def largest_file(model: nn.Module) -> int:
    """Bytes that the file of a model's weights may have: they may be stored in double precision."""
    content: int = sum(tensor.nbytes for tensor in model.state_dict().values())
    return 2 * content + HEADER


def largest_model(path: Path) -> int | None:
    """Bytes that the model of a file of weights may have: they may be stored in half precision."""
    return 4 * path.stat().st_size + HEADER if path.exists() else None


@contextmanager
def limited(most: int | None, what: str) -> Iterator[None]:
    """ValueError as soon as the modules that are built within the context have more than `most` bytes of parameters
    and buffers, before any of them is filled. None: the memory of this machine."""
    from torch.nn.modules import module as registration

    limit, built, mine = memory() if most is None else most, 0, get_ident()

    def count(module: nn.Module, name: str, tensor: Any) -> None:
        nonlocal built
        if get_ident() == mine and tensor is not None:
            built += tensor.numel() * tensor.element_size()
            if built > limit:
                raise ValueError(f"{what} needs more than {limit:,} bytes")

    hooks = [
        registration.register_module_parameter_registration_hook(count),
        registration.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    except (RuntimeError, MemoryError, OverflowError) as error:
        raise ValueError(f"{what} cannot be built: {' '.join(str(error).split())[:200]}") from error
    finally:
        for hook in hooks:
            hook.remove()
