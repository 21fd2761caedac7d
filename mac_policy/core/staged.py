"""SFARM: activation in two stages, a first region and then the rest, in one of several modes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count
from mac_policy.core.checks import as_tensor, check_generator
from mac_policy.core.question import check_query, mark_ranks, still_asked, with_order_of_given
from mac_policy.core.subsets import draw_below, subsets_within
from mac_policy.core.training_draws import TrainingMasks, TrainingQueries, uniform_over

Regions = Mapping[str, Sequence[int] | Tensor]

IMAGE_MODES = ("random", "left-right", "right-left", "top-bottom", "bottom-top", "interior", "exterior")


class StagedModes:
    """A mixture of two-stage activations: random order inside the first region, then inside the second.

    `shape`: (H, W) of an image, or (N,) of a table. `modes`: names of image modes (default: all seven of them for an
    image, 'random' for a table), or a mapping from a name to the elements of its first region (indices, or a bool
    tensor of this shape or flat), which is the form for a table's column groups. The `channels` of an element are
    activated together; variables are numbered channel by channel. 'interior' fills the inner patch last, 'exterior'
    first; a mode one of whose regions is empty, as on an image below 4 x 4 pixels, walks as 'random' does.

    Training draws a step and a mode; weights are the next-step activation probabilities (SFARM, Eq. 10). The mode
    used at inference is 'random' where there is one; `.at(mode)` gives the same factorisation for another.

    >>> from mac_policy.core import StagedModes
    >>> StagedModes((4, 4)).at("interior").path_mode(2)
    tensor([5, 5])
    >>> tables = StagedModes((5,), {"random": [], "inputs-first": [0, 1, 2, 3]})
    """

    deterministic = False

    def __init__(
        self, shape: int | Sequence[int], modes: Regions | Iterable[str] | None = None, channels: int = 1
    ) -> None:
        sides = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        if len(sides) not in (1, 2):
            raise ValueError(
                f"shape must be (H, W) of an image or (N,) of a table, got {sides}; channels have their own"
            )
        self.shape = tuple(check_count("every side of shape", size) for size in sides)
        self.channels = check_count("channels", channels)
        self.num_elements = math.prod(self.shape)
        self.num_variables = self.num_elements * channels
        regions = self._named_regions(modes)
        self.modes = tuple(regions)
        self._first = torch.stack([self._as_region(name, region) for name, region in regions.items()])  # (M, S)
        self._mode = self.modes.index("random") if "random" in self.modes else 0

    def at(self, mode: str) -> StagedModes:
        """This factorisation with inference in another mode."""
        other = copy(self)
        other._mode = self.modes.index(check_choice("mode", mode, self.modes))
        return other

    def training_masks(self, n: int, generator: torch.Generator | None = None) -> TrainingMasks:
        check_count("n", n, 0)
        check_generator(generator)
        mode = draw_below(torch.full((n,), len(self.modes)), generator)
        step = draw_below(torch.full((n,), self.num_elements), generator)
        first = self._first[mode]  # (n, S)
        size = first.sum(1)
        in_first = subsets_within(first, step.minimum(size), generator)
        in_second = subsets_within(~first, (step - size).clamp(min=0), generator)
        active = in_first | in_second
        stage = torch.where((step < size)[:, None], first, ~first) & ~active
        return TrainingMasks(self._with_channels(active), self._with_channels(uniform_over(stage)), mode)

    def training_queries(self, n: int, generator: torch.Generator | None = None) -> TrainingQueries:
        """A mode for each row; half of the rows query the rest given the active variables, half query everything."""
        active, _, mode = self.training_masks(n, generator)
        given = active & (torch.rand((n, 1), generator=generator) < 0.5)
        after = self._ranks(self._first[mode], generator, query=~given, given=given)
        before = self._ranks(self._first[mode], generator, query=given, given=given & False)
        return TrainingQueries(with_order_of_given(after, given, before), uniform_over(~given), mode)

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        check_generator(generator)
        query, given = check_query(self.num_variables, query=query, given=given)
        return self._ranks(self._first[self._mode], generator, query=query, given=given)

    def _ranks(self, first: Tensor, generator: torch.Generator | None, *, query: Tensor, given: Tensor) -> Tensor:
        """Ranks along random paths through the elements of `first` (S,) or (n, S), then through the others."""
        asked = query.view(len(query), self.channels, self.num_elements).any(1)
        keys = torch.rand(asked.shape, generator=generator, dtype=torch.float64) + ~first
        by_key = keys.masked_fill(~asked, torch.inf).argsort(1).argsort(1)
        return mark_ranks(self._with_channels(by_key), query=query, given=given)

    def next_law(self, ranks: Tensor, now: Tensor) -> Tensor:
        asked = still_asked(ranks, now)
        elements = asked.view(len(asked), self.channels, self.num_elements).any(1)
        in_first = elements & self._first[self._mode]
        stage = torch.where(in_first.any(1, keepdim=True), in_first, elements)
        return self._with_channels(uniform_over(stage)) * asked

    def __repr__(self) -> str:
        return f"StagedModes in mode {self.modes[self._mode]!r}"

    def meets_all(self, whole_paths: bool) -> bool:
        first = self._first[self._mode]
        return self.channels == 1 and bool(first.all() | ~first.any())

    def meets(self, ranks: Tensor, whole_paths: bool) -> Tensor:
        """Elements of the first region are answered while nothing is known of the second, those of the second when the
        first is known, and some channels of an element are never evidence without the others."""
        none, first = self.num_variables, self._first[self._mode]
        by_channel = ranks.clamp(min=-1).view(len(ranks), self.channels, self.num_elements)
        rank, latest = by_channel.amin(1), by_channel.amax(1)
        asked = ((by_channel >= 0) & (by_channel < none)).any(1)
        last_first = rank.masked_fill(~first, -1).amax(1)  # none where something of the first region stays unknown
        first_second = rank.masked_fill(first, none).amin(1)
        first_asked = rank.masked_fill(~asked | ~first, -1).amax(1)
        second_asked = rank.masked_fill(~asked | first, none + 1).amin(1)
        end = by_channel.masked_fill(by_channel == none, -1).amax((1, 2))[:, None]
        together = ((rank == latest) | ((latest == none) & (rank == end))).all(1)
        return ~asked.any(1) | (together & (first_asked <= first_second) & (last_first < second_asked))

    def remedy(self, whole_paths: bool) -> str:
        whole = "Give and query the channels of an element together. " if self.channels > 1 else ""
        if self.modes[self._mode] == "random":
            return whole.strip()
        return f"{whole}Ask along another mode, `factorization.at(mode)`, or train with a mode 'random'."

    def path_mode(self, n: int) -> Tensor:
        return torch.full((n,), self._mode)

    def _named_regions(self, modes: Regions | Iterable[str] | None) -> Regions:
        if isinstance(modes, Mapping):
            if not modes:
                raise ValueError("modes must name at least one region, got an empty mapping")
            return modes
        known = image_regions(*self.shape) if len(self.shape) == 2 else {"random": self._whole()}
        names = list(known) if modes is None else list(modes)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"modes must be one or more different names out of {list(known)}, got {names}")
        return {check_choice("mode", name, known): known[name] for name in names}

    def _as_region(self, name: str, region: Sequence[int] | Tensor) -> Tensor:
        given = as_tensor(f"region {name!r}", region)
        if given.dtype == torch.bool:
            if given.shape not in (self.shape, (self.num_elements,)):
                wanted = f"shape {self.shape} or {self.num_elements} entries"
                raise ValueError(f"region {name!r} must have {wanted}, got shape {tuple(given.shape)}")
            return given.reshape(-1)
        chosen = self._whole() & False
        index = given.long()
        if given.ndim != 1 or bool(((index != given) | (index < 0) | (index >= self.num_elements)).any()):
            raise ValueError(f"region {name!r} must list elements 0..{self.num_elements - 1}, got {given.tolist()}")
        chosen[index] = True
        return chosen

    def _whole(self) -> Tensor:
        return torch.ones(self.num_elements, dtype=torch.bool)

    def _with_channels(self, elements: Tensor) -> Tensor:
        return elements if self.channels == 1 else elements.repeat(1, self.channels)


def image_regions(height: int, width: int) -> dict[str, Tensor]:
    """The first region of each of the seven image modes, (H*W,) bool. The inner patch is the middle half."""
    row = torch.arange(height)[:, None].expand(height, width)
    column = torch.arange(width)[None].expand(height, width)
    inner = (row >= height // 4) & (row < height - height // 4)
    inner = inner & (column >= width // 4) & (column < width - width // 4)
    left, top = column < (width + 1) // 2, row < (height + 1) // 2
    regions = (torch.ones_like(left), left, ~left, top, ~top, ~inner, inner)
    return {name: region.reshape(-1) for name, region in zip(IMAGE_MODES, regions, strict=True)}
