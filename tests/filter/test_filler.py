"""Filling in: what is commanded is carried out, and whatever goes wrong a safe action comes out."""

import gc
import pickle
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mac_policy import Actions, Spaces
from mac_policy.filter.filler import Filler
from mac_policy.policies.bc import BC, BCSettings
from tests.policies.conftest import ACTION, OBSERVATION, PLACED, SPACES, make

LOW, HIGH = SPACES.action.low, SPACES.action.high
NONE, ALL = np.zeros(ACTION, bool), np.ones(ACTION, bool)


def observations(batch=1, seed=0):
    return np.random.default_rng(seed).normal(2, 1, (batch, OBSERVATION)).astype(np.float32)


def inside(batch, seed=0):
    drawn = LOW + np.random.default_rng(seed).random((batch, ACTION)) * (HIGH - LOW)
    return np.clip(drawn.astype(np.float32), LOW, HIGH)


def masks(batch, seed=0):
    return np.random.default_rng(seed).random((batch, ACTION)) < 0.5


class Pause(float):
    """Seconds that a policy takes."""


class Scripted(BC):
    """Gives the answers it is told to, one after the other: actions, exceptions to raise or pauses to make."""

    answers = ()

    def tell(self, *answers):
        self.answers = list(answers)
        return self

    def step(self, *args, **settings):
        action, state = super().step(*args, **settings)
        answer = self.answers.pop(0) if self.answers else 0.0
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Pause):
            time.sleep(answer)
            answer = -0.5
        return np.broadcast_to(np.float32(answer), action.shape).copy(), state


def scripted(*answers, **settings):
    return Scripted(SPACES, BCSettings(width=8, depth=1, **settings)).eval().tell(*answers)


def fill(filler, values=0.0, mask=NONE, seen=None):
    size = (filler.batch, ACTION)
    seen = observations(filler.batch) if seen is None else seen
    return filler(seen, np.broadcast_to(np.float32(values), size), np.broadcast_to(mask, size))


@pytest.mark.parametrize("see_operator", [True, False])
@pytest.mark.parametrize("kind", ["bc", "mac", "ibc"])
def test_what_is_commanded_comes_back_bit_for_bit(kind, see_operator):
    filler = Filler(make(kind), 12, see_operator=see_operator, max_change=0.01)
    for step in range(4):
        values, mask = inside(12, step), masks(12, step)
        values[0] = [-0.0, HIGH[1], LOW[2]]
        mask[:3] = ALL, NONE, ALL
        filled = filler(observations(12, step), np.where(mask, values, np.nan), mask)
        assert filled.actions[mask].tobytes() == values[mask].tobytes()
        assert all(action in SPACES.action for action in filled.actions)
        assert (filled.mask == mask).all()
        assert not filled.fallback.any()
        assert not filled.invalid.any()


def test_the_policy_fills_in_given_what_is_commanded():
    policy, seen, values, mask = make("mac"), observations(9), inside(9), masks(9)
    filled = Filler(policy, 9)(seen, values, mask)
    expected = policy.act(seen, values, mask, deterministic=True)
    np.testing.assert_array_equal(filled.actions, expected)


def test_a_blind_policy_is_not_shown_what_is_commanded():
    policy, seen, values, mask = make("mac"), observations(9), inside(9), masks(9)
    filled = Filler(policy, 9, see_operator=False)(seen, values, mask)
    expected = np.where(mask, values, policy.act(seen, deterministic=True))
    np.testing.assert_array_equal(filled.actions, expected)
    assert (expected != policy.act(seen, values, mask, deterministic=True)).any()  # seeing makes a difference


def test_what_is_not_commanded_may_be_anything():
    policy, seen, mask = make("mac"), observations(9), masks(9)
    filler, twin = Filler(policy, 9), Filler(policy, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for junk in (np.nan, np.inf, -3e38):
            values = np.where(mask, inside(9), np.float32(junk))
            np.testing.assert_array_equal(filler(seen, values, mask).actions, twin(seen, inside(9), mask).actions)


def test_a_command_outside_the_space_is_clipped_counted_and_warned_of_once():
    filler = Filler(make("bc"), 2)
    mask = np.array([ALL, [True, False, False]])
    with pytest.warns(RuntimeWarning, match="outside the action space: it is clipped") as warned:
        filled = [filler(observations(2), np.array([[0.0, 9.0, -9.0], [0.5, 9.0, 9.0]]), mask) for _ in range(3)][-1]
    assert len(warned) == 1
    assert filled.actions[0].tolist() == [0.0, HIGH[1], LOW[2]]
    assert filled.actions[1, 0] == 0.5
    assert filler.counts["clipped"] == 3
    assert not filled.fallback.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_command_that_is_not_finite_brings_the_fallback_counted_and_warned_of_once(bad):
    filler = Filler(make("mac"), 3)
    before = fill(filler).actions
    values, mask = inside(3), np.tile([True, True, False], (3, 1))
    values[1, 0] = bad
    with pytest.warns(RuntimeWarning, match="command is not finite or has the wrong size") as warned:
        filled = [filler(observations(3), values, mask) for _ in range(4)][-1]
    assert len(warned) == 1
    assert filled.fallback.tolist() == filled.invalid.tolist() == [False, True, False]
    assert filled.actions[1].tolist() == [before[1, 0], values[1, 1], before[1, 2]]  # the usable dim is carried out
    assert filled.mask[1].tolist() == [False, True, False]
    undisturbed = Filler(make("mac"), 3)(observations(3), inside(3), mask)
    np.testing.assert_array_equal(filled.actions[[0, 2]], undisturbed.actions[[0, 2]])
    assert (filler.counts["invalid"], filler.counts["fallback"]) == (4, 4)
    good = filler(observations(3), inside(3), mask)
    assert not good.fallback.any()


@pytest.mark.parametrize(
    ("values", "mask"),
    [
        (np.zeros(ACTION), np.ones(ACTION, bool)),
        (np.zeros((2, ACTION + 1)), np.ones((2, ACTION + 1), bool)),
        (np.zeros((2, ACTION)), np.ones((2, 1), bool)),
        (np.zeros((1, ACTION)), np.ones((2, ACTION), bool)),
        (None, None),
        ("left", "right"),
        ([[0.0], [0.0, 1.0]], [[True], [True, False]]),
        (np.zeros((2, ACTION)), np.full((2, ACTION), 0.5)),
        (np.zeros((2, ACTION)), np.full((2, ACTION), np.nan)),
        (np.zeros((2, ACTION)), np.full((2, ACTION), 2)),
        pytest.param([[10**400] * ACTION] * 2, np.ones((2, ACTION), bool), id="too large a number"),
        (torch.zeros(2, ACTION, requires_grad=True), np.ones((2, ACTION), bool)),
    ],
    ids=str,
)
def test_a_command_of_the_wrong_size_or_kind_brings_the_fallback(values, mask):
    filler = Filler(make("mac"), 2)
    before = fill(filler).actions
    with pytest.warns(RuntimeWarning, match="wrong size"):
        filled = filler(observations(2, seed=5), values, mask)
    np.testing.assert_array_equal(filled.actions, before)
    assert filled.fallback.all()
    assert filled.invalid.all()
    assert not filled.mask.any()


def test_masks_of_zeros_and_ones_are_masks():
    one, other = Filler(make("mac"), 5), Filler(make("mac"), 5)
    for kind in (np.int8, np.float32, list):
        mask = masks(5).tolist() if kind is list else masks(5).astype(kind)
        np.testing.assert_array_equal(
            one(observations(5), inside(5), mask).actions, other(observations(5), inside(5), masks(5)).actions
        )


def test_a_policy_that_raises_is_survived():
    filler = Filler(scripted(0.2, RuntimeError("no memory"), RuntimeError("again"), 0.3), 2)
    assert (fill(filler).actions == np.float32(0.2)).all()
    with pytest.warns(RuntimeWarning, match=r"policy failed with RuntimeError: no memory.*stands still") as warned:
        first, second = (fill(filler, 0.4, [True, False, False]) for _ in range(2))
    assert len(warned) == 1
    for filled in (first, second):
        assert filled.actions.tolist() == np.float32([[0.4, 0.2, 0.2]] * 2).tolist()  # the operator still commands
        assert filled.fallback.all()
        assert not filled.invalid.any()
    assert (fill(filler).actions == np.float32(0.3)).all()
    assert (filler.counts["failed"], filler.counts["fallback"], filler.counts["calls"]) == (4, 4, 4)


def test_a_policy_that_gives_nan_brings_the_fallback_row_by_row():
    broken = np.float32([[0.1, 0.1, 0.1], [0.1, np.nan, 0.1], [np.inf, 0.1, 0.1]])
    filler = Filler(scripted(0.2, broken), 3)
    fill(filler)
    with pytest.warns(RuntimeWarning, match="policy returned NaN or infinity"):
        filled = fill(filler)
    assert filled.fallback.tolist() == [False, True, True]
    assert filled.actions.tolist() == np.float32([[0.1] * 3, [0.2] * 3, [0.2] * 3]).tolist()
    assert filler.counts["broken"] == 2


def test_a_chunk_that_turned_out_broken_is_not_carried_on():
    policy = make("bc", horizon=4, execute=4)
    with torch.no_grad():
        policy.network[-1].bias[4] = np.nan  # the second step of the chunk
    filler = Filler(policy)
    assert not fill(filler).fallback[0]
    with pytest.warns(RuntimeWarning, match="NaN"):
        assert fill(filler).fallback[0]
    assert [bool(fill(filler).fallback[0]) for _ in range(3)] == [False, True, False]  # planned anew each time


def test_a_policy_that_answers_out_of_the_space_or_in_another_shape_is_made_safe():
    filler = Filler(scripted(99.0), 1)
    assert fill(filler).actions[0].tolist() == HIGH.tolist()
    filler.policy.step = lambda *args, **kwargs: (np.zeros((1, ACTION + 1)), None)
    with pytest.warns(RuntimeWarning, match=r"ValueError: actions are \(1, 4\) and not \(1, 3\)"):
        assert fill(filler).fallback[0]


def test_a_late_policy_is_not_waited_for():
    filler = Filler(scripted(), deadline_ms=60)
    filler.policy.tell(0.2, Pause(0.4), 0.3)
    assert fill(filler).actions[0].tolist() == np.float32([0.2] * 3).tolist()
    began = time.perf_counter()
    with pytest.warns(RuntimeWarning, match="no answer within 60 ms: the robot stands still"):
        late = fill(filler, 0.4, [True, False, False])
    assert 50 < late.milliseconds <= 1000 * (time.perf_counter() - began) < 300
    busy = fill(filler)  # the late call still runs
    for filled in (late, busy):
        assert filled.fallback[0]
        assert filled.actions[0].tolist() == np.float32([0.4, 0.2, 0.2]).tolist()
    assert (filler.counts["late"], filler.counts["failed"]) == (2, 0)
    time.sleep(0.5)
    assert fill(filler).actions[0].tolist() == np.float32([0.3] * 3).tolist()  # what came late is not used


def test_a_policy_that_raises_a_timeout_of_its_own_has_failed_and_is_not_late():
    filler = Filler(scripted(), deadline_ms=5000)
    filler.policy.tell(0.2, TimeoutError("no camera"))
    fill(filler)
    with pytest.warns(RuntimeWarning, match="the policy failed with TimeoutError: no camera"):
        assert fill(filler).fallback[0]
    assert (filler.counts["late"], filler.counts["failed"]) == (0, 1)


def test_a_policy_in_time_answers_as_without_a_deadline():
    timed, free = Filler(make("mac"), 4, deadline_ms=5000), Filler(make("mac"), 4)
    for step in range(3):
        given = observations(4, step), inside(4, step), masks(4, step)
        np.testing.assert_array_equal(timed(*given).actions, free(*given).actions)


def test_the_thread_of_a_deadline_ends_with_its_owner():
    before = set(threading.enumerate())
    filler = Filler(scripted(), deadline_ms=1000)
    fill(filler)
    (thread,) = set(threading.enumerate()) - before
    del filler
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_a_nan_observation_holds_its_own_row_alone():
    policy = make("mac", history=2)
    filler, twin = Filler(policy, 3), Filler(policy, 3)
    before = fill(filler).actions
    fill(twin)
    seen = observations(3, seed=4)
    blind = seen.copy()
    blind[1, 2] = np.nan
    with pytest.warns(RuntimeWarning, match="the observation is NaN"):
        filled = fill(filler, seen=blind)
    undisturbed = fill(twin, seen=seen)
    assert filled.fallback.tolist() == [False, True, False]
    assert filled.actions[1].tolist() == before[1].tolist()
    np.testing.assert_array_equal(filled.actions[[0, 2]], undisturbed.actions[[0, 2]])
    again, fresh = fill(filler, seen=seen), fill(Filler(policy, 3), seen=seen)
    np.testing.assert_allclose(again.actions[1], fresh.actions[1], atol=1e-5)  # nothing made up is remembered


def test_before_any_action_the_one_nearest_to_zero_is_the_fallback_or_the_one_asked_for():
    high = spaces.Box(np.float32([0.25, -1, -1]), np.float32([1, 1, -0.5]))
    for rest, expected in ((None, [0.25, 0.0, -0.5]), ([0.5, 0.5, -0.75], [0.5, 0.5, -0.75])):
        filler = Filler(scripted(RuntimeError("no")), rest=rest, space=high)
        with pytest.warns(RuntimeWarning):
            assert fill(filler).actions[0].tolist() == expected


def test_rows_that_begin_an_episode_have_no_last_action():
    filler = Filler(scripted(0.25, RuntimeError("no")), 3)
    fill(filler)
    filler.reset(np.array([False, True, False]))
    with pytest.warns(RuntimeWarning):
        assert fill(filler).actions[:, 0].tolist() == [0.25, 0.0, 0.25]


def test_rows_that_begin_an_episode_forget():
    policy = make("bc", history=3, horizon=2, execute=2)
    filler, other = Filler(policy, 2), Filler(policy, 2)
    for step in range(3):
        fill(filler, seen=observations(2, step))
    filler.reset(np.array([True, False]))
    after, fresh = fill(filler, seen=observations(2, 9)), fill(other, seen=observations(2, 9))
    np.testing.assert_allclose(after.actions[0], fresh.actions[0], atol=1e-5)
    assert np.abs(after.actions[1] - fresh.actions[1]).max() > 1e-3


def test_a_hand_over_is_smooth_and_catches_up():
    limit = np.float32([0.1, 0.2, 0.05])
    filler = Filler(scripted(), 2, max_change=limit)
    one = np.array([[True, False, False], [False, False, False]])
    filler.policy.tell(0.0, 0.4)
    fill(filler, -0.75, one)
    assert fill(filler, 0.9, one).actions[0].tolist() == np.float32([0.9, 0.4, 0.4]).tolist()  # no change of subset
    moves, last = [], fill(filler, 0.9, one).actions
    for _ in range(11):  # the first row lets go, the other goes on as it was
        filler.policy.tell(0.4)
        now = fill(filler).actions
        moves.append(np.abs(now - last))
        last = now
    moves = np.array(moves)
    assert (moves[:, 0] <= limit + 1e-6).all()
    assert (moves[:2, 0] > 0.9 * limit).all()  # as fast as allowed
    np.testing.assert_allclose(last[0], [0.4, 0.4, 0.4], atol=1e-6)
    np.testing.assert_allclose(moves[0, 1], 0.4, atol=1e-6)  # the other row is not limited
    filler.policy.tell(-0.5)
    np.testing.assert_allclose(fill(filler).actions[0], np.float32([-0.5, -0.5, 0.0]))  # caught up: free again


def test_a_hand_over_limits_no_command_and_not_the_start():
    filler = Filler(scripted(), 1, max_change=0.01)
    filler.policy.tell(0.5, 0.5, 0.5)
    assert fill(filler).actions[0].tolist() == [0.5, 0.5, 0.5]
    assert fill(filler, -0.75, [True, True, False]).actions[0].tolist() == [-0.75, -0.75, 0.5]
    filler.reset()
    filler.policy.tell(0.1)
    np.testing.assert_allclose(fill(filler).actions[0], 0.1)


def test_a_hand_over_goes_on_after_steps_in_fallback():
    filler = Filler(scripted(), 1, max_change=0.1)
    filler.policy.tell(0.0, RuntimeError("no"), 0.5, 0.5)
    fill(filler, 0.0, ALL)
    with pytest.warns(RuntimeWarning):
        assert fill(filler).actions[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose([fill(filler).actions[0, 0] for _ in range(2)], [0.1, 0.2], atol=1e-6)


def test_standing_still_is_not_limited_by_a_hand_over():
    policy = standing("delta", 1.0, 1.0, ValueError("no")).policy
    filler = Filler(policy, max_change=0.05)
    fill(filler, 0.4, ALL)
    fill(filler, 0.4, ALL)
    with pytest.warns(RuntimeWarning, match="stands still"):
        found = fill(filler)
    assert found.fallback.all()
    assert not found.actions.any()


@pytest.mark.parametrize("max_change", [None, 100.0])
def test_the_policy_remembers_what_was_carried_out_unless_it_is_blind(max_change):
    """A mac policy that sticks to its last action must stick to the one there really was; a blind one must not learn
    from it, a step later, what was commanded."""
    policy = make("mac", decode="best", candidates=64, stickiness=1e6)

    def after(last, see_operator):
        filler = Filler(policy, 1, see_operator=see_operator, max_change=max_change)
        fill(filler, last, [True, False, False])
        return fill(filler).actions[0]

    assert after(-0.9, True)[0] < after(0.9, True)[0] - 0.1
    np.testing.assert_array_equal(after(-0.9, False), after(0.9, False))


def test_the_same_seed_draws_the_same():
    policy = make("mac", decode="sample")
    one, same, other = Filler(policy, 5, seed=3), Filler(policy, 5, seed=3), Filler(policy, 5, seed=4)
    first = fill(one).actions
    assert (first == fill(same).actions).all()
    assert (first != fill(other).actions).any()
    one.seed(3)
    one.reset()
    assert (first == fill(one).actions).all()
    calm = Filler(policy, 5, deterministic=True)
    assert (fill(calm).actions == policy.act(observations(5), deterministic=True)).all()
    hot = Filler(make("mac"), 5, temperature=5.0)
    assert (fill(hot).actions != fill(hot).actions).any()


def test_the_likelihood_is_that_of_the_operators_dims():
    policy, seen, values, mask = make("mac"), observations(9), inside(9), masks(9)
    filler = Filler(policy, 9)
    found = filler.log_likelihood(filler(seen, values, mask))
    np.testing.assert_allclose(found, policy.log_prob(seen, values, query=mask))
    assert (found[~mask.any(1)] == 0).all()


def test_a_likelihood_that_cannot_be_had_is_nan():
    filler = Filler(make("mac"), 2)
    with pytest.warns(RuntimeWarning, match="not finite"):
        filled = filler(observations(2), [[np.nan, 0.0, 0.0], [0.5, 0.0, 0.0]], [[True, False, False]] * 2)
    assert np.isnan(filler.log_likelihood(filled)).tolist() == [True, False]
    filler.policy.log_prob = lambda *args, **settings: 1 / 0
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        assert np.isnan(filler.log_likelihood(fill(filler))).all()


def test_a_late_policy_is_not_asked_for_a_likelihood():
    filler = Filler(scripted(0.0, Pause(0.5)), 1, deadline_ms=100)
    filler.policy.log_prob = lambda *args, **settings: pytest.fail("asked while it still runs")
    with pytest.warns(RuntimeWarning, match="no answer within"):
        late = fill(filler)
    assert np.isnan(filler.log_likelihood(late)).all()


def test_bounds_of_the_same_type_that_differ_by_a_rounding_error_do_no_harm():
    wide = spaces.Box(np.nextafter(LOW, np.float32(-9)), np.nextafter(HIGH, np.float32(9)))
    filler = Filler(make("mac"), 2, space=wide)
    values = np.stack([wide.low, wide.high])
    filled = filler(observations(2), values, np.tile([True, True, False], (2, 1)))
    assert filled.actions[:, :2].tobytes() == values[:, :2].tobytes()
    assert not filled.fallback.any()


def test_bounds_that_differ_by_a_rounding_error_do_no_harm():
    wide = spaces.Box(LOW.astype(np.float64) - 1e-9, HIGH.astype(np.float64) + 1e-9, dtype=np.float64)
    filler = Filler(make("mac"), 2, space=wide)
    values = np.stack([wide.low, wide.high])
    filled = filler(observations(2), values, np.tile([True, True, False], (2, 1)))
    assert filled.actions[:, :2].tobytes() == values[:, :2].tobytes()
    assert not filled.fallback.any()


@pytest.mark.parametrize("deadline", [None, 1000.0])
def test_it_pickles_in_the_middle_of_an_episode(deadline):
    filler = Filler(make("mac", history=2, decode="sample"), 3, max_change=0.1, deadline_ms=deadline, seed=5)
    for step in range(3):
        filler(observations(3, step), inside(3, step), masks(3, step))
    copy = pickle.loads(pickle.dumps(filler))
    for step in range(3, 6):
        given = observations(3, step), inside(3, step), masks(3, step)
        assert (filler(*given).actions == copy(*given).actions).all()
    assert copy.counts == filler.counts


def test_an_operator_may_write_into_its_own_arrays():
    filler, twin = (Filler(scripted(0.0, 0.5, 0.5), 1, max_change=0.1) for _ in range(2))
    values, mask, seen = np.zeros((1, ACTION), np.float32), np.ones((1, ACTION), bool), observations()
    filled = [filler(seen, values, mask)]
    mask[:] = False
    seen[:] = 7.0
    filled[0].actions[:] = 0.9
    filled.append(filler(observations(), values, mask))
    expected = [fill(twin, 0.0, ALL), fill(twin, 0.0, NONE)]
    np.testing.assert_array_equal(filled[1].actions, expected[1].actions)


def test_actions_are_of_the_type_of_the_space():
    double = spaces.Box(LOW.astype(np.float64), HIGH.astype(np.float64), dtype=np.float64)
    values = np.random.default_rng(0).random((4, ACTION)) * 0.4
    filled = Filler(make("mac"), 4, space=double)(observations(4), values, masks(4))
    assert filled.actions.dtype == np.float64
    assert (filled.actions[masks(4)] == values[masks(4)]).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_change": 0.0}, r"max_change must be a number above 0 or 3 of them, got 0.0"),
        ({"max_change": [0.1, 0.1]}, r"max_change must be .* got \[0.1, 0.1\]"),
        ({"max_change": float("nan")}, "max_change must be .* got nan"),
        ({"deadline_ms": 0}, "deadline_ms must be a finite number above 0, got 0"),
        ({"temperature": -1.0}, "temperature must be a finite number of at least 0, got -1.0"),
        ({"rest": [0.0, 0.0, 9.0]}, r"rest must be an action in .* got \[0.0, 0.0, 9.0\]"),
        ({"rest": [0.0]}, "rest must be an action in"),
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Filler(make("bc"), **settings)


def test_observations_of_another_size_are_refused():
    for shape in ((2, OBSERVATION), (1, OBSERVATION + 1), (OBSERVATION,)):
        with pytest.raises(ValueError, match=r"observations must be \(1, 4\)"):
            Filler(make("bc"))(np.zeros(shape), np.zeros((1, ACTION)), np.ones((1, ACTION), bool))


SCALE, READ = np.float32([0.5, 0.2, 1.0]), [2, 0, 1]


def standing(meaning, *answers):
    """A filler whose policy gives these answers, over actions of this meaning."""
    actions = PLACED.actions if meaning == "placed" else Actions(meaning=meaning)
    spaces_ = Spaces.of(*SPACES[:2], actions)
    return Filler(Scripted(spaces_, BCSettings(width=8, depth=1)).eval().tell(*answers), rest=[0.1, 0.2, 0.3])


@pytest.mark.filterwarnings("ignore:the policy failed:RuntimeWarning", "ignore:the observation is NaN:RuntimeWarning")
def test_standing_still_leads_to_the_last_target_from_the_present_reading():
    filler = standing("placed", 0.4, RuntimeError("no"), RuntimeError("no"))
    nothing = np.zeros((1, ACTION), np.float32), NONE[None]
    first = observations(seed=1)
    sent = filler(first, *nothing).actions
    target = first[:, READ] + SCALE * sent
    for seed in (2, 3):  # the target stays where it was, however long the policy is silent
        now = first + 0.05 * observations(seed=seed)
        found = filler(now, *nothing)
        assert found.fallback.all()
        np.testing.assert_allclose(found.actions, np.clip((target - now[:, READ]) / SCALE, LOW, HIGH), atol=1e-5)


@pytest.mark.filterwarnings("ignore:the policy failed:RuntimeWarning", "ignore:the observation is NaN:RuntimeWarning")
@pytest.mark.parametrize(
    ("meaning", "again"), [("unknown", True), ("absolute", True), ("relative", False), ("delta", False)]
)
def test_standing_still_without_targets_repeats_a_place_and_no_motion(meaning, again):
    filler = standing(meaning, 0.4, RuntimeError("no"))
    nothing = np.zeros((1, ACTION), np.float32), NONE[None]
    last = filler(observations(), *nothing).actions
    found = filler(observations(), *nothing).actions
    np.testing.assert_array_equal(found, last if again else np.zeros_like(last))


@pytest.mark.filterwarnings("ignore:the policy failed:RuntimeWarning", "ignore:the observation is NaN:RuntimeWarning")
def test_without_a_reading_a_relative_action_of_nought_stands_still_and_rest_comes_before_all():
    filler = standing("placed", RuntimeError("no"), 0.4)
    nothing = np.zeros((1, ACTION), np.float32), NONE[None]
    np.testing.assert_allclose(filler(observations(), *nothing).actions, [[0.1, 0.2, 0.3]])
    filler(observations(), *nothing)
    blind = np.full((1, OBSERVATION), np.nan, np.float32)
    np.testing.assert_array_equal(filler(blind, *nothing).actions, np.zeros((1, ACTION), np.float32))


@pytest.mark.filterwarnings("ignore:the policy failed:RuntimeWarning", "ignore:the observation is NaN:RuntimeWarning")
def test_a_command_that_was_carried_out_blindly_is_not_repeated():
    filler = standing("placed", 0.4, RuntimeError("no"))
    blind, one = np.full((1, OBSERVATION), np.nan, np.float32), np.arange(ACTION)[None] == 0
    command = np.full((1, ACTION), 0.5, np.float32)
    assert filler(blind, command, one).actions[0, 0] == np.float32(0.5)  # where that leads is not known
    for seen in (blind, observations()):
        np.testing.assert_array_equal(filler(seen, command, ~one & one).actions[0, 0], 0.0)
