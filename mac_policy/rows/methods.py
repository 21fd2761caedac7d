"""The named methods: which factorisation a model of rows is trained and asked with, and which kind of network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from mac_policy.common.checks import check_choice
from mac_policy.core import Factorization, MaskTuned, UniformCardinality, UniformOrder


@dataclass(frozen=True)
class Method:
    """How a model of rows is trained and asked: an any-order model along one law, or a baseline.

    factorization: from (number of variables, canonical order) to the factorisation, None for staged activation and for
    baselines; network: the kind of network, 'set' or 'path', or the name of a baseline in `rows.baselines`; modes: of
    staged activation, () for all modes of the rows' shape; sizes: defaults of the network's settings.
    """

    about: str
    factorization: Callable[[int, Tensor], Factorization] | None = None
    network: str = "set"
    modes: tuple[str, ...] | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_baseline(self) -> bool:
        return self.factorization is None and self.modes is None


def _uniform(num_variables: int, order: Tensor) -> Factorization:
    return UniformOrder(num_variables)


def _tuned(num_variables: int, order: Tensor, **settings: Any) -> Factorization:
    return MaskTuned(UniformCardinality(num_variables), order, **settings)


def mask_tuned(about: str, **settings: Any) -> Method:
    """A method for queries of uniform cardinality; `settings` are those of MaskTuned."""
    return Method(about, partial(_tuned, **settings))


def path_tuned(about: str, given: str, **settings: Any) -> Method:
    """`mask_tuned` with a path network, whose attention among given variables is `given`: 'free' or 'causal'."""
    return Method(about, partial(_tuned, **settings), "path", sizes={"given": given})


METHODS: dict[str, Method] = {
    "ardm": Method("random orders (ARDM)", _uniform),
    "rnd-b": mask_tuned(
        "masks of marginal queries, random paths (w-RND)", protocol="random", cardinality_reweighting=False
    ),
    "rnd-b-cr": mask_tuned("rnd-b with cardinality reweighting", protocol="random"),
    "ablate-a": mask_tuned(
        "canonical paths, last edge of each query only", path_weighting="last", cardinality_reweighting=False
    ),
    "mac-nocr": mask_tuned("masks of marginal queries, canonical paths (w-MAC)", cardinality_reweighting=False),
    "mac": mask_tuned("w-MAC with cardinality reweighting: the paper's MAC"),
    "mac-edge": mask_tuned("w-MAC, every edge with its exact weight", cardinality_reweighting=False, weights="edge"),
    "mac-both": mask_tuned("mac for marginal and conditional queries, half and half", query="both"),
    "ardm-path": Method("random orders by a path network", _uniform, "path", sizes={"given": "free"}),
    # Marginal queries give nothing: the network was trained to read evidence in path order alone.
    "mac-path": path_tuned("w-MAC by a path network: a whole path in one pass", "causal"),
    "mac-path-both": path_tuned("mac-path for marginal and conditional queries", "free", query="both"),
    "sfarm": Method("staged activation in every mode (SFARM)", modes=()),
    "sfarm-uniform": Method("sfarm with the random mode alone", modes=("random",)),
    "vae": Method("a variational autoencoder", network="vae"),
    "miwae": Method("an importance-weighted autoencoder for missing data", network="miwae"),
    "ddpm": Method("a diffusion model; fills in by RePaint", network="ddpm"),
}
FIGURE_3 = ("ardm", "rnd-b", "ablate-a", "mac-nocr", "mac", "mac-edge")


def check_methods(names: Iterable[str]) -> tuple[str, ...]:
    """The arms of a comparison: names of methods, at least one and no name twice."""
    found = tuple(check_choice("arm", name, METHODS) for name in names)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"arms must be one or more different names, got {list(found)}")
    return found
