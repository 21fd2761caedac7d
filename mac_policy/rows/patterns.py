"""Patterns of missing values: which variables of a row are given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, is_number
from mac_policy.core.staged import image_regions
from mac_policy.core.subsets import uniform_subsets

HOLE = "_"
# The region that each pattern leaves out. `image_regions` names a mode by its first region.
REGIONS = {
    "left": "left-right",
    "right": "right-left",
    "top": "top-bottom",
    "bottom": "bottom-top",
    "interior": "exterior",
    "exterior": "interior",
}
# The mode whose last region is the one that the pattern leaves out.
MODES = {
    "left": "right-left",
    "right": "left-right",
    "top": "bottom-top",
    "bottom": "top-bottom",
    "interior": "interior",
    "exterior": "exterior",
}
SHARED = ("random", "end", "middle")  # these patterns leave out a share: 'random-0.5'
PATTERNS = ("random", "alternate", "end", "middle", *REGIONS)


def split_pattern(text: str) -> tuple[str, float]:
    """The pattern's kind and the share that it leaves out.

    >>> from mac_policy.rows.patterns import split_pattern
    >>> split_pattern("random-0.5"), split_pattern("left")
    (('random', 0.5), ('left', 0.5))
    """
    kind, _, share = str(text).partition("-")
    check_choice("pattern of what is missing", kind, PATTERNS)
    if (kind in SHARED) != bool(share):
        raise ValueError(
            f"pattern {text!r}: {', '.join(SHARED)} leave out a share, written as random-0.5; other patterns have none"
        )
    try:
        return kind, float(share or 0.5)
    except ValueError as error:
        raise ValueError(f"pattern {text!r}: the share {share!r} is no number") from error


def given_by_pattern(
    pattern: str, ratio: float, rows: int, shape: Sequence[int], generator: torch.Generator | None = None
) -> Tensor:
    """The given variables of each row, (rows, N) bool.

    The patterns leave out:

    - 'random': a random share `ratio` of the variables (for images: of the pixels, with all channels of a pixel)
    - 'alternate': every second variable (for images: a checkerboard of pixels)
    - 'end', 'middle': a share `ratio` at the end or in the middle, in reading order
    - 'left', 'right', 'top', 'bottom': one half of an image
    - 'interior', 'exterior': the inner patch of an image, or all variables outside it
    """
    check_choice("pattern", pattern, PATTERNS)
    if not is_number(ratio) or not 0 <= ratio <= 1:
        raise ValueError(f"ratio must be the share that is left out, a number in [0, 1], got {ratio!r}")
    channels, places = (shape[0], math.prod(shape[1:])) if len(shape) == 3 else (1, math.prod(shape))
    missing = _missing(pattern, ratio, rows, places, tuple(shape), generator)
    return ~missing.repeat(1, channels)


def _missing(
    pattern: str, ratio: float, rows: int, places: int, shape: tuple[int, ...], generator: torch.Generator | None
) -> Tensor:
    count = round(ratio * places)
    place = torch.arange(places)
    if pattern == "random":
        return uniform_subsets(torch.full((rows,), count), places, generator)
    if pattern == "alternate":
        one = place % 2 == 1 if len(shape) != 3 else (place // shape[2] + place % shape[2]) % 2 == 1
    elif pattern == "end":
        one = place >= places - count
    elif pattern == "middle":
        first = (places - count) // 2
        one = (place >= first) & (place < first + count)
    elif len(shape) != 3:
        raise ValueError(f"pattern {pattern!r} is for images; for a text choose random, alternate, end or middle")
    else:
        one = image_regions(shape[1], shape[2])[REGIONS[pattern]]
    return one.expand(rows, places)


def pieces(text: str, length: int) -> list[str]:
    """Split a text into pieces of at most `length` characters.

    >>> from mac_policy.rows.patterns import pieces
    >>> pieces("abcde", 2)
    ['ab', 'cd', 'e']
    """
    return [text[start : start + length] for start in range(0, len(text), length)]
