"""A seed from what users of numpy and scikit-learn call a random state."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

LARGEST = 2**32


def seed_from(random_state: Any) -> int:
    """A whole number; of None one from the operating system, of a generator the next that it draws.

    >>> from mac_policy.rows.imputer.seeds import seed_from
    >>> seed_from(7)
    7
    """
    if random_state is None:
        return int(np.random.default_rng().integers(LARGEST))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(LARGEST))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(LARGEST, dtype=np.uint64))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and 0 <= int(random_state) < LARGEST:
        return int(random_state)
    raise ValueError(
        f"random_state must be None, a whole number from 0 to 2**32 - 1, or a numpy RandomState or Generator, "
        f"got {random_state!r}"
    )
