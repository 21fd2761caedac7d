"""Labels: what an action is for, as categories that a person may say and a policy may infer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_list

UNSAID = -1
"""The code of a label that nobody has said; no class."""


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
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"a label's name must be a non-empty string, got {self.name!r}")
        named = all(isinstance(each, str) and each for each in self.classes)
        if not named or len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"label {self.name!r} needs two or more different class names, got {list(self.classes)}")

    def code(self, said: str | int | None) -> int:
        """The number of a class, by name or number; None is `UNSAID`."""
        if said is None:
            return UNSAID
        said = said.item() if getattr(said, "ndim", None) == 0 and hasattr(said, "item") else said
        if isinstance(said, (int, np.integer)) and not isinstance(said, bool):
            if not UNSAID <= said < len(self.classes):
                raise ValueError(
                    f"label {self.name!r} is {said}; allowed are 0..{len(self.classes) - 1}, and {UNSAID} for unsaid"
                )
            return int(said)
        return self.classes.index(check_choice(f"class of label {self.name!r}", said, self.classes))


def label_codes(labels: Sequence[Label], said: Any, rows: int) -> NDArray[np.int64]:
    """(rows, L): the codes of what is said of each label.

    said: {name: class, or one for each row}, where a class is a name, a number or None; or an integer array (L,) or
    (rows, L); or None
    """
    codes = np.full((rows, len(labels)), UNSAID, np.int64)
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
    if found.dtype.kind not in "iu" or found.shape not in ((len(labels),), (rows, len(labels))):
        raise ValueError(
            f"labels must be a mapping from names to classes, or integers ({rows}, {len(labels)}), got {said!r}"
        )
    codes[:] = found
    for column, label in enumerate(labels):
        label.code(int(codes[:, column].min()))
        label.code(int(codes[:, column].max()))
    return codes
