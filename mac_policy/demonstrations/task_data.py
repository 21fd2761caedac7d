"""Where the demonstrations of a task are looked for and how they are read, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice
from mac_policy.common.digest import modules_sha256
from mac_policy.common.labels import Label
from mac_policy.demonstrations.episode import Completions, Episode
from mac_policy.demonstrations.minari_write import Card

DEFAULT_ORDER = "default"


class Recorder(Protocol):
    """Records the scripted demonstration with a given index; the same arguments give the same bytes."""

    def __call__(self, *, seed: int, index: int) -> Episode: ...


@dataclass(frozen=True)
class OfficialFile:
    """A published D4RL file."""

    d4rl_id: str
    file_name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Scripted:
    """The built-in scripted demonstrations of a task."""

    record: Recorder
    """Picklable: it is sent to worker processes."""
    episodes: int = 400
    seed: int = 0
    card: Card = field(default_factory=Card)
    orders: Mapping[str, Recorder] = field(default_factory=dict)
    """Recorders of other orders of the goals than `record`'s, by name."""
    modules: tuple[str, ...] = ()
    """Modules whose code decides the recorded bytes."""

    @property
    def demonstrator(self) -> str:
        """What tells one version of the demonstrator from another; '' where no module is named."""
        return modules_sha256(*self.modules) if self.modules else ""


@dataclass(frozen=True)
class TaskData:
    """The places of a task's demonstrations and the way to read them.

    `views[view][width]` are the columns to keep of an observation that has `width` values in the source.
    """

    name: str
    action_space: spaces.Box | None = None
    views: Mapping[str, Mapping[int, Sequence[int]]] = field(default_factory=dict)
    minari_id: str | None = None
    minari_keys: tuple[str, ...] | None = None
    """The entries of a Dict observation to keep."""
    official: OfficialFile | None = None
    published_kind: str | None = None
    """The kind of the published data ('human'), for files that do not say."""
    scripted: Scripted | None = None
    order: str = DEFAULT_ORDER
    """Of the goals within a scripted demonstration; see `in_order`."""
    variant: str = ""
    """A word for the conditions of the scripted demonstrations, which are stored as a set of their own."""
    completions: Completions | None = None
    """For sources that do not say which goals were completed; takes the observations of any view."""
    labels: tuple[Label, ...] = ()
    """To read from the infos of a Minari data set."""

    @property
    def scripted_id(self) -> str:
        """The Minari id of the built-in scripted demonstrations."""
        variants = ("" if self.order == DEFAULT_ORDER else self.order, self.variant)
        return "-".join(filter(None, (f"mac-policy/{self.name}", *variants, "scripted-v0")))

    def in_order(self, order: str) -> TaskData:
        """The same with scripted demonstrations in another order of the goals, which are stored as another set."""
        if order == self.order:
            return self
        if self.scripted is None or not self.scripted.orders:
            raise ValueError(f"data.order={order}: the demonstrations of {self.name} have only one order")
        recorders = {self.order: self.scripted.record, **self.scripted.orders}
        record = recorders[check_choice("data.order", order, recorders)]
        return replace(self, scripted=replace(self.scripted, record=record, orders=recorders), order=order)

    def select(self, view: str | None) -> Callable[[int], NDArray[np.int64]] | None:
        """From a source's width to the columns of `view`; None keeps every column."""
        if view is None:
            return None
        widths = self.views[check_choice(f"observation view of {self.name}", view, self.views)]

        def columns(width: int) -> NDArray[np.int64]:
            if width not in widths:
                known = ", ".join(map(str, widths))
                others = [name for name, known_widths in self.views.items() if width in known_widths]
                hint = f"; this source has observation={others[0]}" if others else ""
                raise ValueError(
                    f"observation={view} of {self.name} needs a source with {known} values an observation, "
                    f"this one has {width}{hint}"
                )
            return np.asarray(widths[width], dtype=np.int64)

        return columns
