"""Labels: what an action is for, as categories or numbers that a person may say and a policy may infer.

What is said of L labels in B rows is an array of *codes* (B, L): the number of a class, or the number itself of a label
of real values. It holds integers where all labels are categories. Categories come first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_count, check_list, is_number

if TYPE_CHECKING:
    from torch import Tensor

UNSAID = -1
"""The code of a category that nobody has said; no class. That of a label of real values is NaN."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest number that a label of real values may be."""
Codes: TypeAlias = NDArray[Any]
"""(B, L) int64, or float32 where some labels have real values."""
A = TypeVar("A", "Tensor", NDArray[Any])


@dataclass(frozen=True)
class Label:
    """A categorical label of every step, such as the task that is done next.

    A class may mean that there is none ('none'), which is something else than a label that is not said.

    >>> Label("task", ("kettle", "microwave", "none")).code("microwave")
    1
    """

    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(check_list(f"classes of label {self.name!r}", self.classes)))
        check_name(self.name)
        named = all(isinstance(each, str) and each for each in self.classes)
        if not named or len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"label {self.name!r} needs two or more different class names, got {list(self.classes)}")

    def code(self, said: str | int | None) -> int:
        """The number of a class, by name or number; None is `UNSAID`."""
        if said is None:
            return UNSAID
        said = _plain(said)
        if isinstance(said, (int, np.integer)) and not isinstance(said, bool):
            if not UNSAID <= said < len(self.classes):
                raise ValueError(
                    f"label {self.name!r} is {said}; allowed are 0..{len(self.classes) - 1}, and {UNSAID} for unsaid"
                )
            return int(said)
        return self.classes.index(check_choice(f"class of label {self.name!r}", said, self.classes))


@dataclass(frozen=True)
class Ahead:
    """A label of real values: what a number of the observation will be some steps later, such as where an object is
    going. A person may say it, and so point at a place.

    Demonstrations need no labels for it. Hindsight takes it from the episode itself: the observed number `steps` later,
    or at the end of the episode where that comes sooner, because a demonstration leads to where it ends.

    observed: index of the number in the observation
    steps: how far ahead; more steps than an episode has mean its end

    >>> Ahead("kettle_x", observed=23, steps=20).code(0.3)
    0.3
    """

    name: str
    observed: int
    steps: int

    def __post_init__(self) -> None:
        check_name(self.name)
        check_count(f"observed of label {self.name!r}", self.observed, 0)
        check_count(f"steps of label {self.name!r}", self.steps)

    def code(self, said: float | None) -> float:
        """The number that is said; None and NaN are NaN."""
        if said is None:
            return math.nan
        said = _plain(said)
        if not is_number(said) or abs(said) > LARGEST:
            raise ValueError(f"label {self.name!r} must be a finite number, or None where it is not said, got {said!r}")
        return float(said)


AnyLabel: TypeAlias = Label | Ahead


def check_name(name: Any) -> None:
    """ValueError unless this can be the name of a label."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"a label's name must be a non-empty string, got {name!r}")


def in_order(labels: Sequence[AnyLabel]) -> tuple[AnyLabel, ...]:
    """Categories first; ValueError where two labels have one name, or something is no label."""
    for label in labels:
        if not isinstance(label, (Label, Ahead)):
            raise ValueError(f"a label is a Label or an Ahead, got {label!r}")
    if len({label.name for label in labels}) < len(labels):
        raise ValueError(f"labels must have different names, got {[label.name for label in labels]}")
    return (*categories(labels), *numbers(labels))


def categories(labels: Sequence[AnyLabel]) -> tuple[Label, ...]:
    """The labels that are categories."""
    return tuple(label for label in labels if isinstance(label, Label))


def numbers(labels: Sequence[AnyLabel]) -> tuple[Ahead, ...]:
    """The labels of real values."""
    return tuple(label for label in labels if isinstance(label, Ahead))


def unsaid(labels: Sequence[AnyLabel], rows: int) -> Codes:
    """(B, L): the codes where nothing is said."""
    if not labels:
        return np.empty((rows, 0), np.int64)
    codes = np.full((rows, len(labels)), UNSAID, np.float32 if numbers(labels) else np.int64)
    if numbers(labels):
        codes[:, len(categories(labels)) :] = np.nan
    return codes


def is_said(labels: Sequence[AnyLabel], codes: A) -> A:
    """(B, L) bool: which labels are said."""
    said: A = codes >= 0
    if real := len(numbers(labels)):
        said[:, -real:] = codes[:, -real:] == codes[:, -real:]  # all but NaN
    return said


def differ(some: Codes, others: Codes) -> NDArray[np.bool_]:
    """(B,): the rows in which different things are said."""
    is_nan = (some != some) & (others != others)  # in both, which is no difference
    found: NDArray[np.bool_] = ((some != others) & ~is_nan).any(1)
    return found


def label_codes(labels: Sequence[AnyLabel], said: Any, rows: int) -> Codes:
    """(B, L): the codes of what is said of each label.

    said: {name: what is said, or one for each row}: of a category the name of a class or its number, of a label of real
    values a number, None for either; or an array of codes (L,) or (rows, L); or None
    """
    codes = unsaid(labels, rows)
    if said is None:
        return codes
    if not labels:
        raise ValueError(f"the policy has no labels, got labels={said!r}")
    if isinstance(said, Mapping):
        names = [label.name for label in labels]
        for name, value in said.items():
            column = names.index(check_choice("label", name, names))
            is_several = isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1
            each = list(value) if is_several else [value] * rows
            if len(each) != rows:
                raise ValueError(f"label {name!r} has {len(each)} entries for {rows} rows")
            codes[:, column] = [labels[column].code(one) for one in each]
        return codes
    try:
        found = np.asarray(said)
    except ValueError:  # lists of different lengths
        found = np.empty(0)
    kinds = "iuf" if numbers(labels) else "iu"
    if found.dtype.kind not in kinds or found.shape not in ((len(labels),), (rows, len(labels))):
        what = "numbers" if numbers(labels) else "integers"
        raise ValueError(
            f"labels must be a mapping from names to what is said, or {what} ({rows}, {len(labels)}), got {said!r}"
        )
    for column, label in enumerate(labels):
        _check_column(label, np.broadcast_to(found, codes.shape)[:, column])
    codes[:] = found
    return codes


def _check_column(label: AnyLabel, codes: Codes) -> None:
    """ValueError unless all codes (B,) of a label are allowed."""
    if isinstance(label, Ahead):
        for wrong in codes[np.isinf(codes)]:
            label.code(wrong)
        return
    for code in np.unique(codes):
        label.code(int(code) if code == np.floor(code) else code)


def _plain(said: Any) -> Any:
    """The number in an array without axes; anything else as it is."""
    return said.item() if getattr(said, "ndim", None) == 0 and hasattr(said, "item") else said
