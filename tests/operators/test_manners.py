"""Manners: each does what it says, composes with the others and with spoilers, and is decided by the episode's seed."""

import numpy as np
import pytest

from mac_policy.operators.from_file import ReplayOperator
from mac_policy.operators.manners import CoarseOperator, ReleasingOperator, SlowOperator, stretch_probabilities
from mac_policy.operators.operator import HoldingOperator
from mac_policy.operators.registry import OPERATORS, Resources, make_kind, make_operator
from tests.evaluation.small_environments import Counting, held
from tests.operators.test_operators import BATCH, commands, observations
from tests.policies.conftest import ACTION, OBSERVATION, SPACES

STEPS = 40


class Wishing(Counting):
    """Counts, and wants its step."""

    def wanted(self):
        return [f"{step}" for step in self._steps]


def expert(dims, **character):
    assert set(character) <= {"cooperative", "changes_mind"}
    return Wishing(dims, BATCH)


def build(batch=BATCH, **manners):
    kind = make_kind("expert", manners)
    return kind.make(held("random-2"), batch, Resources(SPACES.action, None, lambda dims: Wishing(dims, batch)))


MANNERS = [{"slow": 3}, {"coarse": True}, {"lets_go": 0.4, "lets_go_steps": 3}, {"says_only": True}]
TOGETHER = {"slow": 4, "coarse": True, "lets_go": 0.3, "lets_go_steps": 2}


@pytest.mark.parametrize("manners", [*MANNERS, TOGETHER], ids=str)
def test_the_same_episode_brings_the_same_commands_in_whatever_row_and_company(manners):
    seen, seeds = observations(STEPS, BATCH), np.array([3, 8, 3, 12])
    together = build(**manners)
    together.reset(seeds=np.zeros(BATCH))
    commands(together, seen[:5])  # an episode before leaves nothing behind
    together.reset(seeds=seeds)
    expected = commands(together, seen)
    for row, seed in enumerate(seeds):
        alone = build(1, **manners)
        alone.reset(seeds=seed)
        np.testing.assert_array_equal(commands(alone, seen[:, [row]])[:, 0], expected[:, row])


@pytest.mark.parametrize("manners", [*MANNERS, TOGETHER], ids=str)
def test_rows_begin_their_episodes_independently(manners):
    seen = observations(STEPS, BATCH)
    operator, expected = build(**manners), build(**manners)
    for one in (operator, expected):
        one.reset(seeds=[1, 2, 3, 4])
        commands(one, seen[:7])
    operator.reset(np.array([False, True, False, False]), np.array([99, 7, 99, 99]))
    after, undisturbed = commands(operator, seen[7:]), commands(expected, seen[7:])
    np.testing.assert_array_equal(after[:, [0, 2, 3]], undisturbed[:, [0, 2, 3]])
    fresh = build(**manners)
    fresh.reset(seeds=7)
    np.testing.assert_array_equal(after[:, 1], commands(fresh, seen[7:])[:, 1])


def test_a_slow_operator_gives_the_command_of_every_nth_step():
    operator, quick = SlowOperator(Counting(held("random-1-step"), 2), 5), Counting(held("random-1-step"), 2)
    for one in (operator, quick):
        one.reset(seeds=[4, 5])
    found = [(operator(now), quick(now)) for now in observations(23, 2)]
    for step, (slow, _) in enumerate(found):
        given = found[step - step % 5][1]
        np.testing.assert_array_equal(slow.values, given.values)
        np.testing.assert_array_equal(slow.mask, given.mask)


def test_a_coarse_operator_presses_the_nearest_key_of_each_dim():
    low, high = SPACES.action.low, SPACES.action.high
    rng = np.random.default_rng(0)
    recording = rng.uniform(low, high, (50, ACTION)).astype(np.float32)
    operator = CoarseOperator(ReplayOperator(recording, held(3)), SPACES.action)
    middle = (low + high) / 2
    for action in recording:
        found = operator(np.zeros((1, OBSERVATION))).values[0]
        for dim in range(ACTION):
            keys = [low[dim], middle[dim], high[dim]]
            assert found[dim] == pytest.approx(min(keys, key=lambda key: abs(key - action[dim])), abs=1e-6)


@pytest.mark.parametrize(("share", "steps"), [(0.25, 8), (0.5, 4)])
def test_letting_go_takes_its_share_of_the_steps_in_stretches_of_its_length(share, steps):
    operator = ReleasingOperator(Counting(held(2), 200), share, steps)
    operator.reset(seeds=np.arange(200))
    masks = np.stack([operator(now).mask for now in observations(400, 200)])
    assert (masks[..., 0] == masks[..., 1]).all()
    assert not masks[..., 2].any()
    gone = ~masks[50:, :, 0]
    assert gone.mean() == pytest.approx(share, abs=0.02)
    begun = (gone[1:] & ~gone[:-1]).sum()
    assert gone[1:].sum() / begun == pytest.approx(steps, rel=0.08)


def test_stretches_by_enumeration_of_the_chain():
    for share, steps in ((0.1, 20), (0.5, 1), (0.9, 10)):
        stop, start = stretch_probabilities(share, steps)
        gone = 0.0
        for _ in range(3000):
            gone = gone * (1 - stop) + (1 - gone) * start
        if (share, steps) != (0.5, 1):  # that one alternates
            assert gone == pytest.approx(share)
        assert 1 / stop == steps


def test_an_operator_that_only_says_holds_nothing_and_says_the_same():
    quiet, loud = build(says_only=True), build()
    for one in (quiet, loud):
        one.reset(seeds=[1, 2, 3, 4])
    for now in observations(6, BATCH):
        assert not quiet(now).mask.any()
        assert loud(now).mask.any()
        assert quiet.wanted() == loud.wanted()


def test_manners_compose_in_the_order_of_hand_then_time_then_hold():
    """Keys are pressed, the press lasts, and the hand is lifted from it."""
    operator = build(**TOGETHER)
    plain = ReleasingOperator(SlowOperator(CoarseOperator(Wishing(held("random-2"), BATCH), SPACES.action), 4), 0.3, 2)
    for one in (operator, plain):
        one.reset(seeds=[1, 2, 3, 4])
    np.testing.assert_array_equal(commands(operator, observations(30, BATCH)), commands(plain, observations(30, BATCH)))
    assert operator.wanted() == plain.wanted()


def test_a_spoiler_spoils_what_a_person_with_manners_does():
    seen = observations(STEPS, BATCH)
    spoiled = make_operator(
        "dropout", held(2), BATCH, inner="expert", p=0.0, slow=3, expert=expert, space=SPACES.action
    )
    slow = SlowOperator(Wishing(held(2), BATCH), 3)
    for one in (spoiled, slow):
        one.reset(seeds=[1, 2, 3, 4])
    np.testing.assert_array_equal(commands(spoiled, seen), commands(slow, seen))
    assert spoiled.wanted() == slow.wanted()


def test_the_expert_is_asked_to_be_what_the_settings_say():
    asked = []

    def spy(dims, **character):
        asked.append(character)
        return Wishing(dims, BATCH)

    for settings in ({}, {"cooperative": True}, {"changes_mind": True, "cooperative": True}):
        for kind in ("expert", "noisy"):
            inner = {"inner": "expert"} if kind == "noisy" else {}
            make_operator(kind, held(2), BATCH, expert=spy, space=SPACES.action, **inner, **settings)
    assert asked == [{}, {}, *[{"cooperative": True}] * 2, *[{"changes_mind": True, "cooperative": True}] * 2]
    assert make_kind("expert", {"changes_mind": True}).sets_intent
    assert make_kind("noisy", {"inner": "expert", "changes_mind": True}).sets_intent
    assert not make_kind("expert").sets_intent


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("expert", {"slow": 0}, r"operator\.slow must be a whole number of at least 1, got 0"),
        ("expert", {"slow": 2.5}, r"operator\.slow must be a whole number of at least 1, got 2\.5"),
        ("expert", {"coarse": 1}, r"operator\.coarse must be true or false, got 1"),
        ("expert", {"lets_go": 1.2}, r"operator\.lets_go must be in \[0, 1\], got 1\.2"),
        ("expert", {"lets_go": 1.0}, r"lets_go=1 leaves less than a step.*at most 0\.952.*operator_dims=0"),
        ("expert", {"lets_go": 0.5, "lets_go_steps": 0}, r"lets_go_steps must be a whole number of at least 1, got 0"),
        ("expert", {"says_only": "yes"}, r"operator\.says_only must be true or false, got 'yes'"),
        (
            "bc",
            {"cooperative": True},
            r"operator\.cooperative=true needs operator=expert; a 'bc' operator has no intent",
        ),
        ("noisy", {"inner": "bc", "changes_mind": True}, r"operator\.changes_mind=true needs operator=expert"),
        ("expert", {"slwo": 2}, r"'slwo'.*did you mean 'slow'"),
    ],
)
def test_settings_out_of_range_are_named(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        make_kind(kind, settings)


def test_every_kind_of_the_package_has_manners():
    for kind in OPERATORS.values():
        if kind.__module__.startswith("mac_policy."):
            assert {"slow", "coarse", "lets_go", "says_only"} <= set(kind.__dataclass_fields__), kind


def test_what_commands_depend_on_and_what_is_read_names_the_manners():
    slow, usual = make_kind("expert", {"slow": 5, "coarse": True}), make_kind("expert")
    assert slow.identity() != usual.identity()
    assert slow.describe().endswith(", slow 5, coarse")
    assert make_kind("noisy", {"inner": "expert", "slow": 5}).describe().count("slow 5") == 1
    assert issubclass(type(build(slow=2)), SlowOperator)
    assert isinstance(build(), HoldingOperator)
