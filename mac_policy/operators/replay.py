"""Recorded actions as the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.file_kind import FileKind
from mac_policy.operators.operator import HoldingOperator, Operator, random_stream
from mac_policy.operators.registry import Resources, register_operator


class ReplayOperator(HoldingOperator):
    """Replays recorded actions, one recording an episode, and lets go of its dims when the recording is over.

    The episode's seed draws the recording.
    """

    def __init__(
        self, actions: NDArray[np.floating] | Sequence[NDArray[np.floating]], dims: OperatorDims, batch: int = 1
    ) -> None:
        """actions: one recording (T, n), or a list of recordings"""
        super().__init__(dims, batch)
        single = isinstance(actions, np.ndarray) and actions.ndim == 2
        self.recordings = [_recording(r, dims.action_dim) for r in ([actions] if single else actions)]
        if not self.recordings:
            raise ValueError("a replay needs at least one recording of actions, got none")
        self._chosen = np.zeros(batch, np.int64)
        self._holding = np.ones((batch, 1), bool)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            self._chosen[row] = random_stream("replay", seeds[row]).integers(len(self.recordings))

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        values = np.zeros((self.batch, self.action_dim), np.float32)
        for row, (chosen, step) in enumerate(zip(self._chosen, self._steps, strict=True)):
            recording = self.recordings[chosen]
            self._holding[row] = step < len(recording)
            if step < len(recording):
                values[row] = recording[step]
        return values

    def holding(self) -> NDArray[np.bool_]:
        return self._holding


@register_operator
@dataclass(frozen=True)
class Replay(FileKind):
    """Recorded actions.

    path: a .npy with (steps, dims) actions, or a .npz with several recordings
    """

    name: ClassVar[str] = "replay"

    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return ReplayOperator(read_recordings(str(self.path)), dims, batch)

    def describe(self) -> str:
        return f"a recording ({self.path})"


def read_recordings(path: str) -> list[NDArray[np.float32]]:
    """The recorded actions (T, n) of a .npy file, or those of a .npz file."""
    try:
        found = np.load(path, allow_pickle=False)
        arrays = [found] if isinstance(found, np.ndarray) else [found[name] for name in found.files]
        return [np.asarray(array, np.float32) for array in arrays]
    except (ValueError, EOFError) as error:
        raise ValueError(f"operator.path={path} holds no recorded actions (.npy or .npz): {error}") from error


def _recording(actions: ArrayLike, action_dim: int) -> NDArray[np.float32]:
    found = np.asarray(actions, np.float32)
    if found.ndim != 2 or found.shape[1] != action_dim or len(found) == 0:
        raise ValueError(f"recorded actions must be (T, {action_dim}) with T of at least 1, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(
            f"recorded actions hold NaN or infinity, first at step {np.argwhere(~np.isfinite(found))[0][0]}"
        )
    return found
