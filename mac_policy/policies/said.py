"""What is said of a policy's labels: checked, and as the values that a network reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mac_policy.common.labels import AnyLabel, Codes, categories, is_said, label_codes, numbers
from mac_policy.policies.normalizer import Normalizer


def checked_codes(labels: Sequence[AnyLabel], said: Any, rows: int, normalizer: Normalizer) -> Codes:
    """(B, L): the codes of what is said; ValueError for what is no class, and for a number outside the demonstrated
    range of the observation and its margin, about which the demonstrations say nothing."""
    codes = label_codes(labels, said, rows)
    first = len(categories(labels))
    for column, label in enumerate(numbers(labels), first):
        low, high = demonstrated(normalizer, label.observed)
        inside = np.clip(codes[:, column], low, high)
        wrong = ~(np.isclose(codes[:, column], inside) | np.isnan(inside))
        if wrong.any():
            raise ValueError(
                f"label {label.name!r} is {codes[wrong, column][0]:g}; the demonstrations, with a margin, lie in "
                f"[{low:g}, {high:g}]: say a number in this range"
            )
        codes[:, column] = inside
    return codes


def demonstrated(normalizer: Normalizer, observed: int) -> tuple[float, float]:
    """The range of an observed number in the demonstrations, with its margin."""
    low, high = normalizer.observation_low[observed], normalizer.observation_high[observed]
    return float(low), float(high)


def label_values(labels: Sequence[AnyLabel], codes: Tensor, normalizer: Normalizer) -> Tensor:
    """Codes (B, L) -> the numbers of classes, and real values normalised as the observation is; 0 where nothing is
    said."""
    real, first = numbers(labels), len(categories(labels))
    values = codes[:, :first].clamp(min=0)
    if not real:
        return values
    normalised = normalizer.dims(codes[:, first:], [label.observed for label in real])
    return torch.cat([values, normalised.nan_to_num(0.0)], 1)


def label_inputs(labels: Sequence[AnyLabel], codes: Tensor, normalizer: Normalizer) -> Tensor:
    """(B, `input_size`): what a network that is told its labels reads, a one among zeros for a class and a normalised
    number for a real value; NaN in rows in which a label is not said."""
    values = label_values(labels, codes, normalizer)
    known = categories(labels)
    ones = [
        torch.nn.functional.one_hot(values[:, i].long(), len(label.classes)).to(normalizer.observation_mean)
        for i, label in enumerate(known)
    ]
    read = torch.cat([*ones, values[:, len(known) :].to(normalizer.observation_mean)], 1)
    return torch.where(is_said(labels, codes).all(1, keepdim=True), read, torch.nan)


def input_size(labels: Sequence[AnyLabel]) -> int:
    """How many numbers `label_inputs` has for a row."""
    return sum(len(label.classes) for label in categories(labels)) + len(numbers(labels))
