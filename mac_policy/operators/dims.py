"""Which action dims an operator holds: always the same ones, or a subset drawn for each episode or each step."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.checks import check_count

RANDOM = re.compile(r"random(?:-(\d+))?(-step)?")
STREAM = 0x0D1D5  # keeps these draws apart from others made with the same episode seed


@dataclass(frozen=True)
class OperatorDims:
    """A rule that gives the mask of held dims from an episode's seed (and the step) alone.

    >>> OperatorDims.parse("[0, 2]", action_dim=3).masks(np.array([7]), step=0)
    array([[ True, False,  True]])
    """

    action_dim: int
    fixed: tuple[int, ...] | None
    """The dims held, in the order they were listed; None when they are drawn."""
    cardinality: int | None = None
    """How many dims a drawn subset has; None draws that too, uniform in 0..action_dim."""
    every_step: bool = False
    """Whether a new subset is drawn at each step and not once an episode."""

    @staticmethod
    def parse(spec: OperatorDims | int | str | Sequence[int] | NDArray[Any], action_dim: int) -> OperatorDims:
        """k (the first k dims; 0: none), a list of dims, 'random-k' (a new subset each episode), 'random-k-step'
        (each step) or 'random' (any subset, its size uniform); numbers and lists also as text."""
        check_count("action_dim", action_dim)
        if isinstance(spec, OperatorDims):
            if spec.action_dim != action_dim:
                raise ValueError(
                    f"operator_dims were made for {spec.action_dim} action dims, but the action has {action_dim}"
                )
            return spec
        if isinstance(spec, str):
            if found := RANDOM.fullmatch(spec.strip()):
                return _drawn(spec, found, action_dim)
            spec = _listed(spec, action_dim)
        if _is_whole(spec):
            if not 0 <= spec <= action_dim:
                raise _refused(spec, action_dim)
            return OperatorDims(action_dim, tuple(range(int(spec))))
        return OperatorDims(action_dim, _checked(spec, action_dim))

    def masks(self, seeds: ArrayLike, step: ArrayLike = 0) -> NDArray[np.bool_]:
        """(B,) seeds of episodes, the step within them (one or (B,)) -> (B, action_dim) True where held."""
        seeds = np.atleast_1d(np.asarray(seeds, np.int64))
        if self.fixed is not None:
            return np.tile(_mask(self.fixed, self.action_dim), (len(seeds), 1))
        steps = np.broadcast_to(np.asarray(step, np.int64), seeds.shape) if self.every_step else np.zeros_like(seeds)
        drawn = [_draw(self, seed, at) for seed, at in zip(seeds.tolist(), steps.tolist(), strict=True)]
        return np.stack([_mask(dims, self.action_dim) for dims in drawn])

    def __str__(self) -> str:
        """The specification as `parse` reads it."""
        if self.fixed is not None:
            return json.dumps(list(self.fixed), separators=(",", ":")) if self.fixed else "0"
        size = "" if self.cardinality is None else f"-{self.cardinality}"
        return f"random{size}{'-step' if self.every_step else ''}"


def _mask(dims: tuple[int, ...], action_dim: int) -> NDArray[np.bool_]:
    mask = np.zeros(action_dim, bool)
    mask[list(dims)] = True
    return mask


@functools.lru_cache(maxsize=4096)
def _draw(rule: OperatorDims, seed: int, step: int) -> tuple[int, ...]:
    rng = np.random.default_rng([STREAM, seed % 2**63, step])
    size = rng.integers(rule.action_dim + 1) if rule.cardinality is None else rule.cardinality
    return tuple(rng.permutation(rule.action_dim)[:size].tolist())


def _drawn(spec: str, found: re.Match[str], action_dim: int) -> OperatorDims:
    size = None if found[1] is None else int(found[1])
    if size is not None and not 1 <= size <= action_dim:
        raise _refused(spec, action_dim)
    return OperatorDims(action_dim, None, size, every_step=found[2] is not None)


def _listed(spec: str, action_dim: int) -> Any:
    """The number or list that a text names; '0,2,4' is a list too."""
    text = spec.strip()
    try:
        return json.loads(f"[{text}]" if "," in text and not text.startswith("[") else text)
    except ValueError:
        raise _refused(spec, action_dim) from None


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _checked(spec: Any, action_dim: int) -> tuple[int, ...]:
    if isinstance(spec, np.ndarray):
        spec = spec.tolist()
    if not isinstance(spec, Sequence) or isinstance(spec, str) or len(spec) == 0:
        raise _refused(spec, action_dim)
    for dim in spec:
        if not _is_whole(dim):
            raise _refused(list(spec), action_dim, f"{dim!r} is not a whole number")
        if not 0 <= dim < action_dim:
            raise _refused(list(spec), action_dim, f"there is no dim {dim}")
    if len(set(spec)) < len(spec):
        raise _refused(list(spec), action_dim, "a dim is repeated")
    return tuple(int(dim) for dim in spec)


def _refused(spec: Any, action_dim: int, why: str = "") -> ValueError:
    return ValueError(
        f"operator_dims = {spec!r} cannot be used{f': {why}' if why else ''}. Allowed for {action_dim} action dims: "
        f"0..{action_dim} (the first k), a list of different dims out of 0..{action_dim - 1}, "
        f"'random-k' (k from 1 to {action_dim}; a new subset each episode), 'random-k-step' (each step), 'random'"
    )
