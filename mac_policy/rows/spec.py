"""What a model of rows is made of, as plain values that travel in its config.json."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.folders import limited
from mac_policy.common.settings import Count, Settings, check_value, choice, from_mapping
from mac_policy.core import AnyOrderModel, Factorization, StagedModes
from mac_policy.core.heads import (
    Bernoulli,
    Categorical,
    DiscretizedLogisticMixture,
    EnergyTilted,
    Gaussian,
    GaussianMixture,
    Head,
    PixelLogisticMixture,
)
from mac_policy.core.networks import MLP, Network, PathTransformer, Transformer, UNet
from mac_policy.core.orders import lexicographic, strided
from mac_policy.rows.baselines import BASELINES, Baseline
from mac_policy.rows.methods import METHODS
from mac_policy.rows.model import AnyOrderRows, RowModel

T = TypeVar("T")
Levels = Annotated[int, partial(check_count, least=2, most=1 << 20)]
NETWORKS: dict[str, type[Network]] = {
    "transformer": Transformer,
    "unet": UNet,
    "mlp": MLP,
    "path_transformer": PathTransformer,
}
HEADS: dict[str, type[Head]] = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "logistic": DiscretizedLogisticMixture,
    "pixels": PixelLogisticMixture,
    "gaussian": Gaussian,
    "mixture": GaussianMixture,
    "energy": EnergyTilted,
}
RANDOM = "random"  # the mode of staged activation that every staged method has
MOST_VARIABLES = 1 << 20
ORDERS = ("lexicographic", "strided", "pixels")


@dataclass(frozen=True)
class ModelSpec(Settings):
    """The description of a model of rows.

    method: a name in `METHODS`; shape, levels: of the rows, as `RowSet` has them; network: its `kind` in `NETWORKS` and
    its sizes, or in `BASELINES` and its settings; head: its `kind` in `HEADS` and its settings; order: the canonical
    order, 'lexicographic', 'strided' (with `stride`) or 'pixels' (pixel by pixel, the channels of one together);
    regions: further modes of staged activation of a table, each by the columns that are activated first.
    """

    method: Annotated[str, choice(METHODS)]
    shape: tuple[int, ...]
    levels: Levels | None
    network: Mapping[str, Any]
    head: Mapping[str, Any]
    order: Mapping[str, Any] = field(default_factory=lambda: {"kind": "lexicographic"})
    regions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shape or any(size < 1 for size in self.shape) or self.num_variables > MOST_VARIABLES:
            raise ValueError(f"shape must hold sizes of at least 1, {MOST_VARIABLES:,} variables at most: {self.shape}")
        if self.regions and len(self.shape) != 1:
            raise ValueError("regions are for tables: images have modes of their own")
        if RANDOM in self.regions:
            raise ValueError(f"a region cannot be named {RANDOM!r}: that is the mode without one; name it otherwise")

    @property
    def num_variables(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Order(Settings):
    """A canonical order by its kind; see `make_order`."""

    prefix: ClassVar[str] = "order."

    kind: Annotated[str, choice(ORDERS, "order")] = "lexicographic"
    stride: Count | None = None


def build(spec: ModelSpec, seed: int = 0) -> RowModel:
    """An untrained model; methods with the same kind of network start from the same weights, given the same seed.

    The global random state is left as it was.

    >>> from mac_policy.rows.spec import ModelSpec, build
    >>> build(ModelSpec("mac", (9,), None, {"kind": "mlp", "width": 8}, {"kind": "gaussian"})).num_variables
    9
    """
    with torch.random.fork_rng(), limited(None, "a model of this spec"):
        torch.manual_seed(seed)
        return make_baseline(spec) if METHODS[spec.method].is_baseline else make_any_order(spec)


def make_any_order(spec: ModelSpec) -> AnyOrderRows:
    """An any-order model, whose first weights come from torch's global generator."""
    factorization = make_factorization(spec)
    head = make_head(spec)
    return AnyOrderRows(AnyOrderModel(make_network(spec, head), head, validate=False), factorization)


def make_baseline(spec: ModelSpec) -> Baseline:
    """One of `BASELINES`, made of shape, levels, head, network and its own settings."""
    kind = check_choice("baseline", spec.network.get("kind"), BASELINES)
    if kind != METHODS[spec.method].network:
        raise ValueError(f"the method {spec.method} is the baseline {METHODS[spec.method].network}, not {kind}")
    known = {"shape": spec.shape, "head": make_head(spec), "levels": spec.levels}
    return _construct(BASELINES[kind], spec.network, known, kind)


def make_factorization(spec: ModelSpec) -> Factorization:
    """The law that the model is trained for and asked along."""
    method = METHODS[spec.method]
    if method.factorization is not None:
        order = from_mapping(Order, spec.order, "order")
        return method.factorization(spec.num_variables, make_order(spec.shape, order.kind, order.stride))
    return staged_modes(spec, method.modes or None)


def staged_modes(spec: ModelSpec, names: tuple[str, ...] | None = None) -> StagedModes:
    """Staged activation of rows of this shape in these modes (default: all there are).

    Images are activated pixel by pixel, in the seven modes; tables at random, and by each of the `regions`.
    """
    if len(spec.shape) == 3:
        return StagedModes(spec.shape[1:], names, channels=spec.shape[0])
    regions = {RANDOM: (), **spec.regions}
    return StagedModes(spec.shape, {name: regions[name] for name in names or regions})


def make_head(spec: ModelSpec) -> Head:
    cls = HEADS[check_choice("head", spec.head.get("kind"), HEADS)]
    known: dict[str, Any] = {"num_variables": spec.num_variables, "num_classes": spec.levels, "num_levels": spec.levels}
    known["channels"] = spec.shape[0] if len(spec.shape) == 3 and METHODS[spec.method].modes is not None else 1
    head = _construct(cls, spec.head, known, "head")
    if head.discrete != (spec.levels is not None):
        values = "real numbers" if spec.levels is None else f"values 0..{spec.levels - 1}"
        raise ValueError(f"the head {spec.head['kind']!r} is not for {values}")
    return head


def make_network(spec: ModelSpec, head: Head) -> Network:
    cls = NETWORKS[check_choice("network", spec.network.get("kind"), NETWORKS)]
    if cls.kind != METHODS[spec.method].network:
        raise ValueError(
            f"the method {spec.method} needs a {METHODS[spec.method].network} network, "
            f"{spec.network['kind']} is not one"
        )
    known = {
        "shape": spec.shape,
        "num_variables": spec.num_variables,
        "num_features": head.num_features,
        "num_params": head.num_params,
        "num_modes": 0 if METHODS[spec.method].modes is None else len(staged_modes(spec).modes),
    }
    return _construct(cls, spec.network, known, "network")


def _construct(cls: type[T], described: Mapping[str, Any], known: Mapping[str, Any], what: str) -> T:
    """The object of this `kind` with its settings and those of the `known` values that it takes; unknown settings are
    named."""
    taken = inspect.signature(cls).parameters
    settings = {key: value for key, value in described.items() if key != "kind"}
    hints = get_type_hints(cls.__init__)
    for key, value in settings.items():
        check_choice(f"setting of the {what}", key, [name for name in taken if name not in known])
        check_value(f"{what}.{key}", value, hints[key])
    return cls(**{key: value for key, value in known.items() if key in taken}, **settings)


def make_order(shape: tuple[int, ...], kind: str = "lexicographic", stride: int | None = None) -> Tensor:
    """A canonical order of the variables of rows of this shape. (N,)

    >>> from mac_policy.rows.spec import make_order
    >>> make_order((2, 1, 3), "pixels")
    tensor([0, 3, 1, 4, 2, 5])
    """
    check_choice("order", kind, ORDERS)
    num_variables = math.prod(shape)
    if kind == "lexicographic":
        return lexicographic(num_variables)
    return strided(num_variables, math.prod(shape[1:]) if kind == "pixels" else check_count("stride", stride))
