"""The arms of a comparison: which factorisation, asked of which kind of network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from mac_policy.common.checks import check_choice
from mac_policy.core import Factorization, MaskTuned, UniformCardinality, UniformOrder


@dataclass(frozen=True)
class Arm:
    """A way to train and to walk, the same at inference as in training; or a baseline that is no such thing.

    factorization: from (number of variables, canonical order) to the factorisation, None where it is staged or where
    there is none; network: which of the benchmark's networks answers, 'set' or 'path', or the name of a model in
    `rows.baselines`; modes: of staged activation, () for all that rows of the shape have; sizes: settings of the
    network that suit the arm, where a benchmark does not say otherwise.
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


def tuned(about: str, **settings: Any) -> Arm:
    """An arm that trains for queries of uniform cardinality, with these settings of MaskTuned."""
    return Arm(about, partial(_tuned, **settings))


def by_paths(about: str, given: str, **settings: Any) -> Arm:
    """The same with a path network, which reads what is `given` 'free' or 'causal'."""
    return Arm(about, partial(_tuned, **settings), "path", sizes={"given": given})


ARMS: dict[str, Arm] = {
    "ardm": Arm("random orders (ARDM)", _uniform),
    "rnd-b": tuned("masks of marginal queries, random paths (w-RND)", protocol="random", cardinality_reweighting=False),
    "rnd-b-cr": tuned("rnd-b with cardinality reweighting", protocol="random"),
    "ablate-a": tuned(
        "canonical paths, last edge of each query only", path_weighting="last", cardinality_reweighting=False
    ),
    "mac-nocr": tuned("masks of marginal queries, canonical paths (w-MAC)", cardinality_reweighting=False),
    "mac": tuned("w-MAC with cardinality reweighting: the paper's MAC"),
    "mac-edge": tuned("w-MAC, every edge with its exact weight", cardinality_reweighting=False, weights="edge"),
    "mac-both": tuned("mac for marginal and conditional queries, half and half", query="both"),
    # Marginal queries have nothing given: only read in path order is it what the network was trained on.
    "mac-path": by_paths("w-MAC by a path network: a whole path in one pass", "causal"),
    "mac-path-both": by_paths("mac-path for marginal and conditional queries", "free", query="both"),
    "sfarm": Arm("staged activation in every mode (SFARM)", modes=()),
    "sfarm-uniform": Arm("sfarm with the random mode alone", modes=("random",)),
    "vae": Arm("a variational autoencoder", network="vae"),
    "miwae": Arm("an importance-weighted autoencoder for missing data", network="miwae"),
    "ddpm": Arm("a diffusion model; fills in by RePaint", network="ddpm"),
}
FIGURE_3 = ("ardm", "rnd-b", "ablate-a", "mac-nocr", "mac", "mac-edge")


def check_arms(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each of an arm and none twice."""
    found = tuple(check_choice("arm", name, ARMS) for name in names)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"arms must be one or more different names, got {list(found)}")
    return found
