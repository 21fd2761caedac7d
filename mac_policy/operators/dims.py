"""Which action dims an operator holds: always the same ones, or a subset drawn for each episode or each step."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.actions import Actions
from mac_policy.common.checks import check_count
from mac_policy.common.numeric import as_numbers

RANDOM = re.compile(r"random(?:-(\d+))?(-step)?")
NONE = "none"
STREAM = 0x0D1D5  # separates these draws from other draws with the same episode seed


@dataclass(frozen=True)
class OperatorDims:
    """The rule by which an operator holds dims. The seed of the episode and the step alone determine the mask.

    >>> OperatorDims.parse("[0, 2]", action_dim=3).masks(np.array([7]), step=0)
    array([[ True, False,  True]])
    """

    action_dim: int
    fixed: tuple[int, ...] | None
    """The held dims in the order in which they are listed; None: a subset is drawn."""
    cardinality: int | None = None
    """Size of a drawn subset; None: the size is drawn too, uniformly from 0..action_dim."""
    every_step: bool = False
    """Whether a new subset is drawn at each step instead of once per episode."""

    @staticmethod
    def parse(
        spec: OperatorDims | int | str | Sequence[int | str] | NDArray[Any], action_dim: int, names: Sequence[str] = ()
    ) -> OperatorDims:
        """Read a specification, which is one of

        - k: the first k dims, 0 or 'none' for no dim; or a list of dims, by index or by one of `names`; also as text;
        - 'random-k': k dims, drawn anew for each episode; 'random-k-step': for each step;
        - 'random' and 'random-step': the same with a size that is drawn uniformly from 0..action_dim.
        """
        check_count("action_dim", action_dim)
        if isinstance(spec, OperatorDims):
            if spec.action_dim != action_dim:
                raise ValueError(
                    f"operator_dims are made for {spec.action_dim} action dims, but the action has {action_dim}"
                )
            return spec
        if isinstance(spec, str):
            if found := RANDOM.fullmatch(spec.strip()):
                size = None if found[1] is None else int(found[1])
                if size is not None and not 1 <= size <= action_dim:
                    raise _refused(spec, action_dim)
                return OperatorDims(action_dim, None, size, every_step=found[2] is not None)
            spec = 0 if spec.strip() == NONE else _from_text(spec, action_dim, names)
        return OperatorDims(action_dim, _fixed(_unnamed(spec, names), action_dim))

    def masks(self, seeds: ArrayLike, step: ArrayLike = 0) -> NDArray[np.bool_]:
        """(B,) seeds of episodes and the step within each episode, one or (B,) -> (B, action_dim), True where held."""
        seeds = _whole("seeds", seeds)
        step = _whole("step", step)
        if self.fixed is not None:
            return np.tile(np.isin(np.arange(self.action_dim), self.fixed), (len(seeds), 1))
        steps = np.broadcast_to(np.asarray(step, np.int64), seeds.shape) if self.every_step else np.zeros_like(seeds)
        return np.stack([_drawn(self, seed, at) for seed, at in zip(seeds.tolist(), steps.tolist(), strict=True)])

    def __str__(self) -> str:
        """The specification as `parse` reads it."""
        if self.fixed is not None:
            return json.dumps(list(self.fixed), separators=(",", ":")) if self.fixed else "0"
        size = "" if self.cardinality is None else f"-{self.cardinality}"
        return f"random{size}{'-step' if self.every_step else ''}"


@functools.lru_cache(maxsize=4096)
def _drawn(rule: OperatorDims, seed: int, step: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng([STREAM, seed % 2**63, step])
    size = rng.integers(rule.action_dim + 1) if rule.cardinality is None else rule.cardinality
    return np.isin(np.arange(rule.action_dim), rng.permutation(rule.action_dim)[:size])


def _unnamed(spec: Any, names: Sequence[str]) -> Any:
    """A list with an index in place of each name."""
    if not names or not isinstance(spec, (list, tuple)):
        return spec
    return Actions(names=tuple(names)).dims_of("operator_dims", spec)


def _from_text(spec: str, action_dim: int, names: Sequence[str]) -> Any:
    """The number or list that a text names; '0,2,4' and 'joint1,joint2' are lists too."""
    text = spec.strip()
    words = [word.strip() for word in text.removeprefix("[").removesuffix("]").split(",")]
    if any(word in names for word in words):
        return [int(word) if word.isdecimal() and word not in names else word for word in words]
    try:
        return json.loads(f"[{text}]" if "," in text and not text.startswith("[") else text)
    except (ValueError, RecursionError):
        raise _refused(spec, action_dim) from None


def _fixed(spec: Any, action_dim: int) -> tuple[int, ...]:
    """The dims of a number or a list."""
    if _is_whole(spec) and 0 <= spec <= action_dim:
        return tuple(range(int(spec)))
    dims = spec.tolist() if isinstance(spec, np.ndarray) else spec
    if not isinstance(dims, Sequence) or isinstance(dims, str) or len(dims) == 0:
        raise _refused(dims, action_dim)
    for dim in dims:
        if not _is_whole(dim):
            raise _refused(list(dims), action_dim, f"{dim!r} is not a whole number")
        if not 0 <= dim < action_dim:
            raise _refused(list(dims), action_dim, f"there is no dim {dim}")
    if len(set(dims)) < len(dims):
        raise _refused(list(dims), action_dim, "a dim is repeated")
    return tuple(int(dim) for dim in dims)


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """(B,) whole numbers."""
    found = np.atleast_1d(as_numbers(name, values))
    if found.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {values!r}")
    return found.astype(np.int64)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _refused(spec: Any, action_dim: int, why: str = "") -> ValueError:
    return ValueError(
        f"operator_dims = {spec!r} cannot be used{f': {why}' if why else ''}. Allowed for {action_dim} action dims: "
        f"0..{action_dim} (the first k; 0 is 'none'), a list of different dims from 0..{action_dim - 1}, "
        f"'random-k' (k from 1 to {action_dim}, drawn for each episode), 'random-k-step' (for each step), 'random'"
    )
