"""The entries of `info["action_filter"]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.filter.filler import Filled, Filler


class Milliseconds(np.float64):
    """A measured duration, equal to any other: gymnasium's environment checker demands that equal steps give equal
    infos, and a duration is no property of the environment."""

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Milliseconds) or super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


class Reporter:
    """Turns the results of a `Filler` into infos, and counts events per episode."""

    def __init__(self, filler: Filler, likelihood: bool) -> None:
        if likelihood and not filler.policy.has_likelihood:
            raise ValueError(f"likelihood=True needs a policy with one; a {filler.policy.kind} policy has none")
        self.filler, self.likelihood = filler, likelihood
        self._fallback = np.zeros(filler.batch, np.int64)
        self._invalid = np.zeros(filler.batch, np.int64)

    def reset(self, rows: NDArray[np.bool_]) -> None:
        """Begin a new episode in the rows (B,) that are true."""
        self._fallback[rows] = 0
        self._invalid[rows] = 0

    def __call__(self, filled: Filled) -> dict[str, NDArray[Any]]:
        """The entries by name, B values each, as the docstring of `ActionFilter` explains them."""
        self._count(filled)
        report: dict[str, NDArray[Any]] = {
            "action": filled.actions.copy(),
            "mask": filled.mask,
            "fill_ms": np.full(len(filled.fallback), filled.milliseconds),
            "fallback": filled.fallback,
            "invalid": filled.invalid,
            "fallback_steps": self._fallback.copy(),
            "invalid_steps": self._invalid.copy(),
        }
        if self.likelihood:
            report["log_likelihood"] = self.filler.log_likelihood(filled)
        return report

    def single(self, filled: Filled) -> dict[str, Any]:
        """The same for a single environment, without the axis of the environments."""
        self._count(filled)
        report = {
            "action": filled.actions[0].copy(),
            "mask": filled.mask[0],
            "fill_ms": Milliseconds(filled.milliseconds),
            "fallback": bool(filled.fallback[0]),
            "invalid": bool(filled.invalid[0]),
            "fallback_steps": int(self._fallback[0]),
            "invalid_steps": int(self._invalid[0]),
        }
        if self.likelihood:
            report["log_likelihood"] = float(self.filler.log_likelihood(filled)[0])
        return report

    def _count(self, filled: Filled) -> None:
        self._fallback += filled.fallback
        self._invalid += filled.invalid
