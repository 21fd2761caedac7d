"""How far beliefs are from how often they are right."""

import numpy as np

from benchmarks.belief import BINS, Bins


def bins(**steps: tuple[float, float, float]) -> Bins:
    """Of `b<place>=(steps, share that is right, mean belief)`."""
    found = np.zeros((3, BINS))
    for name, (count, right, believed) in steps.items():
        found[:, int(name[1:])] = right * count, believed * count, count
    return Bins(*found)


def test_the_worst_bin_is_the_farthest_one_that_holds_enough_steps():
    found = bins(b3=(500, 0.40, 0.35), b7=(490, 0.82, 0.75), b9=(9, 0.1, 0.95))
    assert np.isclose(found.worst(), 0.07)
    assert found.common().nonzero()[0].tolist() == [3, 7]


def test_bins_of_several_policies_are_those_of_all_their_steps():
    together = Bins(*np.sum([bins(b5=(100, 0.7, 0.55)), bins(b5=(300, 0.5, 0.55))], axis=0))
    right, believed = together.means()
    assert np.isclose(right[5], 0.55)
    assert np.isclose(believed[5], 0.55)
    assert np.isclose(together.worst(), 0.0)
