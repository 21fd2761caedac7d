"""The unit in which likelihoods of rows are reported."""

from __future__ import annotations

import math
from typing import NamedTuple


class Unit(NamedTuple):
    """name: of the unit; better: 'lower' or 'higher'; factor: from a negative log-likelihood in nats per variable."""

    name: str
    better: str
    factor: float


def unit_of(discrete: bool, num_variables: int) -> Unit:
    """Bits per variable for discrete rows; the log-likelihood of a row in nats for rows of real numbers.

    >>> from mac_policy.rows.likelihoods.unit import unit_of
    >>> unit_of(False, 9)
    Unit(name='nats', better='higher', factor=-9.0)
    """
    if discrete:
        return Unit("bits per variable", "lower", 1 / math.log(2))
    return Unit("nats", "higher", -float(num_variables))
