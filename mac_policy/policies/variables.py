"""What a policy models: a list of named variables, and the way from what a robot says to what a network reads."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mac_policy.common.actions import Actions
from mac_policy.common.checks import check_choice
from mac_policy.common.folders import Checked
from mac_policy.common.labels import Ahead, AnyLabel, categories, is_said
from mac_policy.core.frame import Frame
from mac_policy.policies.normalizer import MARGIN, MIN_STD, SLACK, check_bounds, check_size, check_spread, statistics

if TYPE_CHECKING:
    from mac_policy.policies.spaces import Spaces

Representation: TypeAlias = Literal["relative", "absolute"]
Chosen: TypeAlias = Literal["relative", "absolute", "auto"]
FARTHEST = 1e6
"""An infinite reading counts as one this far away: an action towards a place stays a number."""
LOST = 0.01
"""The share of an action's range that the sum of a reading and a scaled action may lose."""
A = TypeVar("A", Tensor, NDArray[np.float32])


class Variable(NamedTuple):
    """One variable of a policy.

    step: of the chunk of actions; 0 is the present one
    dim: of the action, or which label
    low, high: bounds in its unit, of an action (a later step of an absolute chunk: from the present reading, as wide as
        the demonstrations) or of the observed number that a label is about; the numbers of the first and the last class
    moves: the observed position that the action moves, and by how much a unit of action does; None: not known
    classes: of a categorical variable
    """

    name: str
    kind: Literal["real", "categorical"]
    role: Literal["action", "label"]
    step: int
    dim: int
    unit: str
    low: float
    high: float
    representation: Representation | None
    moves: tuple[int, float] | None
    classes: tuple[str, ...] = ()


def choose_representation(chosen: str, actions: Actions) -> Representation:
    """What 'auto' means: absolute where actions can be turned into targets, or are absolute themselves."""
    check_choice("representation", chosen, ("relative", "absolute", "auto"))
    places = actions.has_targets or actions.meaning == "absolute"
    if chosen == "absolute" and not places:
        raise ValueError(
            "representation='absolute' needs the place that an action sends the robot to: say which observed position "
            "each dim moves, and how far (Actions(meaning='relative', observed=..., scale=...)), or that the actions "
            "are absolute (Actions(meaning='absolute')), or use 'relative'"
        )
    if chosen == "relative" and actions.meaning == "absolute":
        raise ValueError("representation='relative': the actions are absolute already; use 'absolute' or 'auto'")
    return "absolute" if places and chosen != "relative" else "relative"


class Variables(Checked, nn.Module):
    """The list of a policy's variables: `horizon` steps of an action, the present one first, then its labels.

    A *relative* policy says how an action is; an *absolute* one says which place it leads to. In both the variable is
    the action itself, in units of its standard deviation: a command is read as it is, and a density is one of actions.
    An absolute policy differs in its `frame`, which turns the place that a network says into an action, given the
    present reading.

    The later steps of an absolute chunk are relative to a reading that is not there yet. Their variables are their
    targets, expressed as actions from the present reading, so that one formula serves all steps. An absolute policy
    keeps and carries out targets: `targets` turns actions into them, `actions` turns them back with the reading of
    their step. For a relative policy both are the identity.

    The values of categorical labels are the numbers of classes, which are neither normalised nor moved; those of real
    labels are normalised as the observation is (`Policy.label_values`) and lie relative to it (`Policy.frame`). Labels
    come last in the list, so that the dims of the action keep their indices, and first in the canonical order; among
    them categories come first.

    `chunk` is the number of variables that belong to actions. Buffers (chunk,): mean, std, low, high, in units of the
    action, and place_mean, place_std.
    """

    mean: Tensor
    std: Tensor
    low: Tensor
    high: Tensor
    place_mean: Tensor
    place_std: Tensor
    scale: Tensor

    def __init__(
        self,
        spaces: Spaces,
        horizon: int = 1,
        representation: Chosen = "auto",
        order: Sequence[int | str] = (),
        labels: Sequence[AnyLabel] = (),
    ) -> None:
        super().__init__()
        self.labels, self.categories = tuple(labels), categories(labels)
        self.action_dim, self.horizon = spaces.action.shape[0], horizon
        self.known = spaces.actions.of(self.action_dim, spaces.observation.shape[0])
        self.representation = choose_representation(representation, self.known)
        self.has_frame = self.representation == "absolute" and self.known.has_targets
        self.chunk = horizon * self.action_dim
        steps = path_order(self.known.dims_of("order", order), self.action_dim, horizon)
        self.order = torch.cat([self.chunk + torch.arange(len(self.labels)), steps])
        self._list = [self._variable(step, dim, spaces) for step in range(horizon) for dim in range(self.action_dim)]
        self._list += [_label(index, label, spaces) for index, label in enumerate(self.labels)]
        if len(set(self.names[: self.chunk])) < self.chunk:
            raise ValueError(f"a dim is called as a later step of another: {', '.join(self.names[: self.chunk])}")
        self._scale = np.array(self.known.scale, np.float32)
        self.register_buffer("scale", torch.tensor(self.known.scale), persistent=False)
        n = self.chunk
        for name, value in (("mean", 0.0), ("std", 1.0), ("place_mean", 0.0), ("place_std", 1.0)):
            if self.has_frame or not name.startswith("place"):
                self.register_buffer(name, torch.full((n,), value))
        for name, bound in (("low", spaces.action.low), ("high", spaces.action.high)):
            self.register_buffer(name, torch.from_numpy(bound.astype(np.float32)).repeat(horizon))

    def _variable(self, step: int, dim: int, spaces: Spaces) -> Variable:
        known, name = self.known, self.known.names[dim]
        return Variable(
            name if step == 0 else f"{name}+{step}",
            "real",
            "action",
            step,
            dim,
            known.units[dim],
            float(spaces.action.low[dim]),
            float(spaces.action.high[dim]),
            self.representation,
            (known.observed[dim], known.scale[dim]) if known.observed else None,
        )

    def __len__(self) -> int:
        return len(self._list)

    def check(self) -> None:
        """ValueError unless the buffers are those of variables: positive spreads, bounds in order, and those of the
        present action as the spaces say."""
        for name in ("std", "place_std")[: 1 + self.has_frame]:
            check_spread(f"variables.{name}", getattr(self, name))
        for name in ("mean", "place_mean")[: 1 + self.has_frame]:
            check_size(f"variables.{name}", getattr(self, name))
        check_bounds("variables.", self.low, self.high)
        most = torch.maximum(self.low.abs(), self.high.abs())[: self.action_dim] * (1 + SLACK) + 1
        if not bool((self.mean[: self.action_dim].abs() <= most).all()):
            raise ValueError("variables.mean lies outside the bounds of the action space")
        for name in ("low", "high"):
            want = torch.tensor([getattr(each, name) for each in self._list[: self.action_dim]])
            if not torch.equal(getattr(self, name)[: self.action_dim], want):
                raise ValueError(f"variables.{name} are not the bounds of the action space")

    @property
    def list(self) -> builtins.list[Variable]:
        bounds = zip(self.low.tolist(), self.high.tolist(), strict=True)
        later = [
            each._replace(low=low, high=high) if each.step else each
            for each, (low, high) in zip(self._list[: self.chunk], bounds, strict=True)
        ]
        return later + self._list[self.chunk :]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self._list)

    @property
    def action_order(self) -> builtins.list[int]:
        """The variables of the chunk in canonical order."""
        found: builtins.list[int] = self.order[len(self.labels) :].tolist()
        return found

    # ---- what is kept and carried out ----

    def reading(self, observations: A) -> A:
        """(..., obs) -> (..., act): the positions that the action's dims move; infinite ones become finite."""
        return observations[..., self.known.observed].clip(-FARTHEST, FARTHEST)

    def targets(self, observations: NDArray[np.float32], actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """(..., obs), (..., act) -> the places that the actions lead to, or the actions of a relative policy."""
        return self.reading(observations) + self._scale * actions if self.has_frame else actions

    def actions(self, observations: NDArray[np.float32], targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """The inverse of `targets`: the actions that lead to the targets from these readings."""
        return (targets - self.reading(observations)) / self._scale if self.has_frame else targets

    def places(self, observations: NDArray[np.float32], actions: NDArray[np.floating]) -> NDArray[np.float32]:
        """(B, obs), (B, act) -> where the actions send each dim; NaN where that is not known."""
        if not self.known.has_targets:
            return np.full(actions.shape, np.nan, np.float32)
        return self.reading(observations) + self._scale * actions

    def still(
        self, actions: NDArray[np.floating], places: NDArray[np.float32], observations: NDArray[np.float32]
    ) -> NDArray[np.floating]:
        """(B, act): the actions that keep a robot where the last `actions` sent it, which are its `places`.

        They lead to the last place, from the present reading, where actions have places; without a reading, now or
        when the last action was carried out, and of other relative and delta actions, they are zero; an absolute
        action is repeated, and so is one of unknown meaning.
        """
        if self.known.meaning not in ("relative", "delta"):
            return actions
        if not self.known.has_targets:
            return np.zeros_like(actions)
        back: NDArray[np.floating] = np.nan_to_num((places - self.reading(observations)) / self._scale, nan=0.0)
        return back

    # ---- what a network reads and says ----

    def encode(self, targets: Tensor, observations: Tensor, labels: Tensor | None = None) -> Tensor:
        """Targets (B, horizon, act), the present observations (B, obs) and values of labels (B, L) -> (B, N)."""
        if self.has_frame:
            targets = (targets - self.reading(observations)[:, None]) / self.scale
        return self.with_labels((targets.flatten(1) - self.mean) / self.std, labels)

    def have_values(self, inside: Tensor, labels: Tensor | None) -> Tensor:
        """(B, N) bool: what has a value, by what lies inside an episode (B, horizon) and the codes of labels."""
        actions = inside.bool()[..., None].expand(*inside.shape, self.action_dim).flatten(1)
        if not self.labels:
            return actions
        unsaid = actions.new_zeros(len(actions), len(self.labels))
        return torch.cat([actions, unsaid if labels is None else is_said(self.labels, labels)], 1)

    def with_labels(self, values: Tensor, labels: Tensor | None) -> Tensor:
        """(B, chunk) and the values of labels (B, L), 0 by default -> (B, N)."""
        if not self.labels:
            return values
        labels = values.new_zeros(len(values), len(self.labels)) if labels is None else labels.to(values)
        return torch.cat([values, labels], 1)

    def decode(self, values: Tensor, observations: Tensor) -> Tensor:
        """The inverse of `encode`, not clipped to any bounds."""
        found: Tensor = (values[:, : self.chunk] * self.std + self.mean).unflatten(1, (self.horizon, self.action_dim))
        if not self.has_frame:
            return found
        return self.reading(observations)[:, None] + self.scale * found

    def frame(self, observations: Tensor) -> Frame | None:
        """How an absolute policy turns places into actions, given the present observations (B, obs)."""
        if not self.has_frame:
            return None
        reading = self.reading(observations).repeat(1, self.horizon)
        unit = self.scale.repeat(self.horizon) * self.std
        shift, scale = (self.place_mean - reading) / unit - self.mean / self.std, self.place_std / unit
        if not self.labels:
            return Frame(shift, scale)
        more = (0, len(self.labels))
        return Frame(nn.functional.pad(shift, more), nn.functional.pad(scale, more, value=1.0))

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Bounds (N,) of normalised values: the action space's, or of a later target the demonstrated range's; real
        labels have none."""
        low, high = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        if not self.labels:
            return low, high
        last = low.new_tensor([len(label.classes) - 1.0 for label in self.categories])
        more = (0, len(self.labels) - len(self.categories))
        ends = (torch.cat([low, torch.zeros_like(last)]), -torch.inf), (torch.cat([high, last]), torch.inf)
        least, most = (nn.functional.pad(part, more, value=infinite) for part, infinite in ends)
        return least, most

    # ---- statistics ----

    def check_precision(
        self, observations: NDArray[np.float32], actions: NDArray[np.float32], targets: NDArray[np.float32]
    ) -> None:
        """ValueError where the targets of actions do not lead back to them: single precision has seven digits, and a
        scale far below the readings is lost in their sum."""
        if not self.has_frame:
            return
        lost = np.abs(self.actions(observations, targets) - actions).max(0)
        for dim in np.flatnonzero(lost > LOST * (self.high - self.low)[: self.action_dim].cpu().numpy()):
            raise ValueError(
                f"dim {self.known.names[dim]!r}: a scale of {self.known.scale[dim]:g} is lost beside readings of up to "
                f"{np.abs(self.reading(observations)[:, dim]).max():g} in single precision; give readings and scale in "
                "units in which they are closer, or use representation='relative'"
            )

    def fit(self, actions: NDArray[np.float32], targets: NDArray[np.float32], ahead: NDArray[np.float64]) -> None:
        """Statistics of the demonstrated actions (S, act), of their targets, and, for an absolute chunk, of the later
        steps `ahead` (S, horizon - 1, act): targets as actions from the present reading, NaN beyond an episode."""
        mean, std = (np.tile(part, (self.horizon, 1)) for part in statistics("action", actions))
        if self.has_frame:
            _fill(self.place_mean, np.tile(targets.mean(0, dtype=np.float64), (self.horizon, 1)))
            _fill(self.place_std, np.tile(np.maximum(targets.std(0, dtype=np.float64), MIN_STD), (self.horizon, 1)))
            if self.horizon > 1:
                seen = ~np.isnan(ahead).all((0, 2))  # the steps that some episode is long enough for
                ahead, later = ahead[:, seen], 1 + np.flatnonzero(seen)
                mean[later], std[later] = np.nanmean(ahead, 0), np.maximum(np.nanstd(ahead, 0), MIN_STD)
                low, high = (part.numpy().reshape(mean.shape)[1:].astype(np.float64) for part in (self.low, self.high))
                low[seen], high[seen] = np.nanmin(ahead, 0), np.nanmax(ahead, 0)
                slack = MARGIN * (high - low)
                _fill(self.low[self.action_dim :], low - slack)
                _fill(self.high[self.action_dim :], high + slack)
        _fill(self.mean, mean)
        _fill(self.std, std)


def _label(index: int, label: AnyLabel, spaces: Spaces) -> Variable:
    if isinstance(label, Ahead):
        low, high = (float(ends[label.observed]) for ends in (spaces.observation.low, spaces.observation.high))
        return Variable(label.name, "real", "label", 0, index, "", low, high, None, None)
    last = len(label.classes) - 1.0
    return Variable(label.name, "categorical", "label", 0, index, "", 0.0, last, None, None, label.classes)


def _fill(buffer: Tensor, values: NDArray[np.float64]) -> None:
    buffer.copy_(torch.from_numpy(np.ascontiguousarray(values)).flatten())


def path_order(order: Sequence[int], action_dim: int, horizon: int) -> Tensor:
    """(horizon * action_dim,): the canonical order of a chunk's variables, step by step."""
    dims = torch.tensor(list(order) or list(range(action_dim)))
    if sorted(dims.tolist()) != list(range(action_dim)):
        raise ValueError(f"order must be a permutation of the action dims 0..{action_dim - 1}, got {list(order)}")
    return (torch.arange(horizon)[:, None] * action_dim + dims).flatten()
