"""Warnings: of queries whose conditionals training has never met, and of values that are not scaled."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mac_policy.core.edges import KnowsEdges, first_unmet

KEPT = 4096  # different paths that are remembered
INSIDE = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
LARGE = 100.0  # of real values, in absolute terms
SHOWN = 6  # variables of an edge that a message names


class UntrainedQueryWarning(UserWarning):
    """A query needs conditionals that training has never met: the answer is an extrapolation of the network."""


class EdgeWatch:
    """Looks at the paths that a model walks and warns once, at the first edge that training does not meet.

    A path is looked at once. A factorisation that meets every edge costs nothing.
    """

    def __init__(self) -> None:
        self.warned = False
        self._of: object = None  # the factorisation that was looked at last
        self._knows: KnowsEdges | None = None  # the same one, if training does not meet every edge
        self._seen: set[int] = set()

    def look(self, factorization: object, ranks: Tensor, whole_paths: bool) -> None:
        """`ranks` (n, N) of paths, on any device; the factorisation tells what training meets."""
        if self._of is not factorization:
            self._of, self._seen = factorization, set()
            self._knows = None
            if isinstance(factorization, KnowsEdges) and not factorization.meets_all(whole_paths):
                self._knows = factorization
        if self._knows is not None and not self.warned:
            self._look_at(self._knows, self._fresh(ranks), whole_paths)

    def _look_at(self, factorization: KnowsEdges, fresh: Tensor, whole_paths: bool) -> None:
        if not len(fresh) or bool((met := factorization.meets(fresh, whole_paths)).all()):
            return
        self.warned = True
        rank = fresh[int((~met).nonzero()[0, 0])]
        evidence, targets = first_unmet(factorization, rank, whole_paths)
        warnings.warn(
            f"this query needs {_edge(targets, evidence)}, which training with {factorization!r} never meets: the "
            f"answer is an extrapolation. {factorization.remedy(whole_paths)}",
            UntrainedQueryWarning,
            stacklevel=_levels_to_the_caller(),
        )

    def _fresh(self, ranks: Tensor) -> Tensor:
        """The paths that have not been looked at, each once."""
        if len(self._seen) > KEPT:
            self._seen = set()
        table = ranks.cpu().numpy().astype(np.int32)
        if len(table) > 1 and (table == table[0]).all():
            table = table[:1]
        keys = {hash(row.tobytes()): place for place, row in enumerate(table)}
        fresh = [place for key, place in keys.items() if key not in self._seen]
        self._seen.update(keys)
        return torch.from_numpy(table[fresh]).long()


def warn_of_scale(values: Tensor) -> None:
    """Warn if real values are far from the unit size at which networks and heads start."""
    largest = float(values.abs().amax()) if values.numel() else 0.0
    if largest > LARGE:
        warnings.warn(
            f"values as large as {largest:.3g} are modelled: networks and heads start at about unit size, and training "
            "may take long or diverge. Standardise each variable, or use TableModel, which does",
            UserWarning,
            stacklevel=_levels_to_the_caller(),
        )


def _levels_to_the_caller() -> int:
    """The `stacklevel` with which a warning of the calling function names the first line outside of the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    return level


def _edge(targets: list[int], evidence: list[int]) -> str:
    """The edge as it is written in formulas, such as p(x2 | x3, x4)."""
    return f"p({_listed(targets)} | {_listed(evidence) if evidence else 'nothing'})"


def _listed(variables: list[int]) -> str:
    return ", ".join(f"x{i}" for i in variables[:SHOWN]) + ", ..." * (len(variables) > SHOWN)
