"""A function over many items in worker processes."""

import pickle

import pytest

from mac_policy.common.processes import map_processes


def square(number):
    return number**2


@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_is_answered_once(workers):
    assert sorted(map_processes(square, range(7), workers)) == [number**2 for number in range(7)]


def test_a_function_that_cannot_be_sent_to_workers_is_refused_at_once():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        list(map_processes(lambda number: number, range(4), 2))
