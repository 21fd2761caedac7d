"""People whose episodes were recorded, as operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.actions import Actions
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.from_file import FileKind, ReplayOperator, read_recordings
from mac_policy.operators.operator import Operator
from mac_policy.operators.registry import Recording, Resources, register_operator


class PersonReplay(ReplayOperator):
    """Plays back what people did: in each held dim the recorded target, whatever the robot's reading is.

    An action that leads to a target is (target - reading) / scale, within the action space. Where actions have no
    targets, the recorded actions are played back. What the person completed becomes the intent of the environment, and
    what the person did next is what the operator wants.
    """

    def __init__(self, recordings: Sequence[Recording], dims: OperatorDims, batch: int, resources: Resources) -> None:
        known = resources.actions.of(dims.action_dim, recordings[0].observations.shape[1]) if recordings else Actions()
        self._known, self._space, self._people = known, resources.space, list(recordings)
        self.environments = list(resources.environments)
        super().__init__([self._played(recording) for recording in recordings], dims, batch)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows).tolist():
            want, completed = getattr(self._environment(row), "want", None), self._person(row).completed
            if want is not None and completed:
                want(completed)

    def wanted(self) -> list[str | None]:
        return [self._wish(row) for row in range(self.batch)]

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        played = super().values(observations)
        if not self._known.has_targets:
            return played
        actions = (played - observations[:, list(self._known.observed)]) / np.array(self._known.scale)
        inside: NDArray[np.floating] = np.asarray(actions)
        return inside if self._space is None else inside.clip(self._space.low, self._space.high)

    def _played(self, recording: Recording) -> NDArray[np.float32]:
        """(T, n): the targets of a recording, or its actions where they have none."""
        if not self._known.has_targets:
            return recording.actions
        return recording.observations[:, list(self._known.observed)] + self._known.scale * recording.actions

    def _person(self, row: int) -> Recording:
        return self._people[int(self._drawn[row])]

    def _environment(self, row: int) -> Any:
        return self.environments[row].unwrapped if self.environments else None

    def _wish(self, row: int) -> str | None:
        """What the person did next at the step of the last command, or what is left of it where that is completed."""
        person, step = self._person(row), max(int(self._steps[row]) - 1, 0)
        if not person.wishes:
            return None
        done = getattr(self._environment(row), "completed", ())
        next_one = person.wishes[step] if step < len(person.wishes) else None
        left = [name for name in person.completed if name not in done]
        return next_one if next_one in left else next(iter(left), person.wishes[-1])


@register_operator
@dataclass(frozen=True)
class Replay(FileKind):
    """Recorded actions, or the recorded targets of people that no policy is trained on.

    path: a .npy with (steps, dims) actions, or a .npz with several recordings; null: the recordings that the task holds
        out, played back in absolute terms
    """

    name: ClassVar[str] = "replay"
    acts_alone: ClassVar[bool] = True

    @property
    def description(self) -> str:  # type: ignore[override]
        return "held-out recordings, played back" if self.path is None else f"a recording ({self.path})"

    @property
    def needs(self) -> Sequence[str]:  # type: ignore[override]
        return ("recordings",) if self.path is None else ()

    @property
    def says(self) -> bool:  # type: ignore[override]
        return self.path is None

    @property
    def sets_intent(self) -> bool:  # type: ignore[override]
        return self.path is None

    def commanding(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        if self.path is not None:
            return ReplayOperator(read_recordings(str(self.path)), dims, batch)
        recordings = self.require(resources, "recordings")()
        return PersonReplay(recordings, dims, batch, resources)
