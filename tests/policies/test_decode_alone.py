"""Rows in which nothing is commanded may choose their values in another way."""

import numpy as np
import pytest
import torch

from tests.policies.conftest import ACTION, OBSERVATION, make

SEEN = np.random.default_rng(0).normal(2.0, 1.0, (6, OBSERVATION)).astype(np.float32)
COMMAND = np.full((6, ACTION), 0.3, np.float32)
HELD = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
ALONE = ~HELD.any(1)


def act(policy, rows, seed=0, **more):
    generator = torch.Generator().manual_seed(seed)
    return policy.act(SEEN[rows], COMMAND[rows], HELD[rows], generator=generator, **more)


@pytest.mark.parametrize("settings", [{}, {"horizon": 3, "execute": 3, "plans": 0.5}], ids=str)
@pytest.mark.parametrize("labelled", [False, True])
def test_held_rows_take_the_mode_and_the_others_are_drawn(settings, labelled):
    both, mode, sample = (
        make("mac", labelled=labelled, **settings, **decode)
        for decode in ({"decode_alone": "sample"}, {}, {"decode": "sample"})
    )
    everything = np.arange(len(SEEN))
    found = act(both, everything)
    np.testing.assert_allclose(found[~ALONE], act(mode, everything)[~ALONE], atol=1e-5)
    np.testing.assert_allclose(found[ALONE], act(sample, everything)[ALONE], atol=1e-5)
    assert not np.allclose(found[ALONE], act(mode, everything)[ALONE], atol=1e-3)
    np.testing.assert_array_equal(found[HELD], COMMAND[HELD])


@pytest.mark.parametrize("row", range(6))
def test_one_row_does_the_same(row):
    policy = make("mac", decode_alone="sample")
    other = make("mac", decode="sample" if ALONE[row] else "mode")
    np.testing.assert_array_equal(act(policy, [row]), act(other, [row]))


def test_a_rows_draws_do_not_depend_on_what_others_command():
    policy, everything, generators = make("mac", decode_alone="sample"), np.arange(6), []
    found = []
    for masks in (HELD, np.zeros_like(HELD), np.where(ALONE[:, None], HELD, True)):
        generators.append(torch.Generator().manual_seed(3))
        found.append(policy.act(SEEN[everything], COMMAND, masks, generator=generators[-1]))
    np.testing.assert_allclose(found[0][ALONE], found[1][ALONE], atol=1e-5)
    np.testing.assert_allclose(found[0][ALONE], found[2][ALONE], atol=1e-5)
    policy.act(SEEN, COMMAND, np.ones_like(HELD), generator=(full := torch.Generator().manual_seed(3)))
    assert all(torch.equal(full.get_state(), generator.get_state()) for generator in generators)


def test_a_deterministic_request_draws_nothing():
    policy, mode = make("mac", decode_alone="sample"), make("mac")
    one, other = (act(policy, np.arange(6), seed, deterministic=True) for seed in (0, 1))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, act(mode, np.arange(6), deterministic=True), atol=1e-5)


def test_candidates_have_no_other_way_alone():
    with pytest.raises(ValueError, match=r"decode_alone=sample needs decode=mode, sample or mean, got decode=best"):
        make("mac", decode="best", decode_alone="sample")
