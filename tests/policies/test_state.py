"""What policies remember between steps: chunks, history, held noise; each row on its own."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.policies import stepping
from mac_policy.policies.decoding import transport
from tests.policies.conftest import ACTION, OBSERVATION, make


def run(policy, seen, resets=(), given=None, mask=None, seed=0):
    """Actions (T, B, act) along observations (T, B, obs); resets: (step, row)."""
    state, generator, actions = None, torch.Generator().manual_seed(seed), []
    for t, observation in enumerate(seen):
        rows = np.array([(t, b) in resets for b in range(seen.shape[1])])
        state = state.reset(rows) if state is not None else None
        action, state = policy.step(
            observation,
            state,
            None if given is None else given[t],
            None if mask is None else mask[t],
            generator=generator,
            deterministic=True,
        )
        actions.append(action)
    return np.stack(actions)


def walk(steps, rows, seed=0):
    return np.random.default_rng(seed).normal(2, 1, (steps, rows, OBSERVATION)).astype(np.float32)


def test_a_chunk_is_carried_out_before_planning_anew():
    policy = make("bc", horizon=4, execute=3)
    seen = walk(6, 1)
    changed = seen.copy()
    changed[[1, 2, 4, 5]] += 1.0  # only the observations at which a plan is made matter
    np.testing.assert_array_equal(run(policy, seen), run(policy, changed))
    changed[3] += 1.0
    assert (run(policy, seen)[3] != run(policy, changed)[3]).any()


def test_a_row_that_is_reset_acts_as_at_the_start_and_the_others_go_on():
    for policy in (make("bc", history=3, horizon=4, execute=4), make("mac", history=2, horizon=2, execute=2)):
        seen = walk(5, 3)
        plain, with_reset = run(policy, seen), run(policy, seen, resets={(2, 1)})
        np.testing.assert_allclose(plain[:, [0, 2]], with_reset[:, [0, 2]], atol=1e-5)
        np.testing.assert_allclose(with_reset[2:, 1], run(policy, seen[2:, 1:2])[:, 0], atol=1e-5)
        assert np.abs(plain[2:, 1] - with_reset[2:, 1]).max() > 1e-3


def test_the_history_is_what_was_seen():
    policy = make("bc", history=3)
    seen = walk(4, 1)
    stacked = seen[1:4, 0][None]
    np.testing.assert_allclose(run(policy, seen)[3], policy.act(stacked), atol=1e-6)


def test_what_is_commanded_during_a_chunk_is_obeyed_and_planned_for():
    policy = make("mac", horizon=3, execute=3)
    seen = np.repeat(walk(1, 2), 3, axis=0)
    given = np.full((3, 2, ACTION), 0.4, np.float32)
    mask = np.zeros((3, 2, ACTION), bool)
    mask[1, 0, 0] = True  # the first row is commanded one dim at the second step
    actions = run(policy, seen, given=given, mask=mask)
    assert actions[1, 0, 0] == given[1, 0, 0]
    expected = policy.act(seen[1, 0], given[1, 0], mask[1, 0], deterministic=True)
    np.testing.assert_allclose(actions[1, 0], expected, atol=1e-6)
    free = run(policy, seen)
    np.testing.assert_array_equal(actions[:, 1], free[:, 1])


def test_a_policy_that_reads_no_command_carries_out_its_chunk_beside_it():
    policy, seen = make("bc", horizon=4, execute=4), walk(6, 2)
    given, mask = np.full((6, 2, ACTION), 0.4, np.float32), np.zeros((6, 2, ACTION), bool)
    mask[1:, 0, 0] = True
    commanded, free = run(policy, seen, given=given, mask=mask), run(policy, seen)
    np.testing.assert_array_equal(commanded[1:, 0, 0], given[1:, 0, 0])
    np.testing.assert_array_equal(commanded[..., 1:], free[..., 1:])
    np.testing.assert_array_equal(commanded[:, 1], free[:, 1])


def test_a_command_begins_a_new_chunk_which_goes_on_when_it_is_let_go():
    policy = make("mac", horizon=3, execute=3)
    seen, given = walk(5, 1), np.full((5, 1, ACTION), 0.4, np.float32)
    mask = np.zeros((5, 1, ACTION), bool)
    mask[1, 0, 0] = True
    actions = run(policy, seen, given=given, mask=mask)
    changed = seen.copy()
    changed[[2, 3]] += 1.0  # the chunk begun at step 1 holds for steps 1 to 3
    np.testing.assert_array_equal(run(policy, changed, given=given, mask=mask)[:4], actions[:4])
    changed[4] += 1.0
    assert (run(policy, changed, given=given, mask=mask)[4] != actions[4]).any()
    assert (run(policy, seen)[2] != actions[2]).any()  # and was made for the command


def test_what_is_commanded_is_what_was_done_last_for_stickiness():
    policy = make("mac", decode="best", stickiness=1.0, horizon=2, execute=2)
    seen, held = walk(1, 2)[0], np.array([[True, False, False], [False, False, False]])
    action, state = policy.step(seen, None, np.full(ACTION, 0.4), held, generator=torch.Generator().manual_seed(0))
    previous = policy.variables.decode(stepping.previous(policy, state, seen).repeat(1, 2), torch.from_numpy(seen))[
        :, 0
    ]
    np.testing.assert_allclose(previous.numpy(), action, atol=1e-6)
    after = stepping.previous(policy, state.reset(np.array([True, False])), seen)
    assert after.isnan().all(1).tolist() == [True, False]


def test_a_step_leaves_the_state_it_was_given_as_it_was():
    policy, seen = make("mac", history=2, horizon=3, execute=3, decode="sample", noise="slow"), walk(2, 2)
    _, state = policy.step(seen[0], None, generator=torch.Generator().manual_seed(0))
    before = copy.deepcopy(state)
    policy.step(seen[1], state, np.zeros(ACTION), [1, 0, 0], generator=torch.Generator().manual_seed(1))
    for name, value in vars(before).items():
        if value is not None and len(value):
            assert (value == getattr(state, name)).all(), name


def test_rows_plan_with_what_is_their_own():
    """The second row alone plans anew: with its command, its noise and its observation."""
    policy = make("mac", horizon=3, execute=3, decode="sample", noise="episode")
    seen, given = walk(2, 2), np.float32([[0.0, 0.0, 0.1], [0.9, -1.5, 0.4]])
    _, state = policy.step(seen[0], None, generator=torch.Generator().manual_seed(0))
    own = replace(state, **{name: part[1:] for name, part in vars(state).items() if part is not None and len(part)})
    held = np.array([[False] * 3, [True, False, True]])
    both, _ = policy.step(seen[1], state, given, held)
    alone, _ = policy.step(seen[1, 1:], own, given[1:], held[1:])
    np.testing.assert_allclose(both[1], alone[0], atol=1e-5)


def test_a_state_remembers_the_actions_that_were_carried_out():
    policy = make("bc", horizon=3, execute=2)
    _, state = policy.step(walk(1, 2)[0], None)
    state = state.reset(np.array([False, True]))
    told = state.carried_out(np.full((2, ACTION), 0.125))
    assert (told.plan[0, 0] == 0.125).all()
    np.testing.assert_array_equal(told.plan[0, 1:], state.plan[0, 1:])
    np.testing.assert_array_equal(told.plan[1], state.plan[1])  # a row that begins has carried out nothing
    assert (state.plan[0, 0] != 0.125).any()


def test_held_noise_is_drawn_anew_for_a_row_that_begins_and_stays_for_the_others():
    policy, seen = make("mac", decode="sample", noise="episode"), walk(1, 2)[0]
    _, before = policy.step(seen, None)
    _, after = policy.step(seen, before.reset(np.array([True, False])))
    assert (before.noise == after.noise).flatten(1).all(1).tolist() == [False, True]


def test_stickiness_has_no_say_at_the_start_of_an_episode():
    seen, actions = walk(1, 2)[0], []
    for stickiness in (0.0, 50.0):
        policy = make("mac", decode="best", stickiness=stickiness, candidates=32)
        _, state = policy.step(seen, None, generator=torch.Generator().manual_seed(0))
        state = state.reset(np.array([True, False]))
        actions.append(policy.step(seen, state, generator=torch.Generator().manual_seed(3))[0])
    np.testing.assert_array_equal(actions[0][0], actions[1][0])
    assert (actions[0][1] != actions[1][1]).any()


def test_a_missed_step_changes_nothing_that_was_assumed():
    policy = make("mac", labelled=True, assume="sampled")
    seen, rows = walk(2, 2), np.array([True, False])
    before = policy.step(seen[0])[1]
    after = policy.step(seen[1], before)[1]
    missed = replace(after, assumed=(after.assumed + 1) % 2).without_step(rows, before)
    np.testing.assert_array_equal(missed.assumed[0], before.assumed[0])
    np.testing.assert_array_equal(missed.assumed[1], (after.assumed[1] + 1) % 2)
    np.testing.assert_array_equal(missed.beliefs[0][0], before.beliefs[0][0])


def test_a_row_stays_reset_when_another_one_is():
    state = make("bc").initial_state(2)
    _, state = make("bc").step(walk(1, 2)[0], state)
    assert state.reset(np.array([True, False])).reset(np.array([False, True])).fresh.all()


def test_a_state_of_other_rows_or_a_stack_of_observations_is_refused():
    policy = make("bc", history=2)
    with pytest.raises(ValueError, match="the state has 3 rows, the observations 2"):
        policy.step(walk(1, 2)[0], policy.initial_state(3))
    with pytest.raises(ValueError, match="keeps the history itself"):
        policy.step(np.zeros((1, 2, OBSERVATION)))


def test_held_noise_stays_for_an_episode_and_fresh_noise_does_not():
    seen = np.repeat(walk(1, 4), 6, axis=0)

    def spread(policy):
        state, generator, actions = None, torch.Generator().manual_seed(0), []
        for observation in seen:
            action, state = policy.step(observation, state, generator=generator)
            actions.append(action)
        return np.stack(actions)

    held = spread(make("mac", decode="sample", noise="episode"))
    np.testing.assert_allclose(held, held[:1].repeat(6, 0), atol=1e-6)
    assert held.std(1).max() > 1e-2  # rows differ
    fresh = spread(make("mac", decode="sample"))
    slow = spread(make("mac", decode="sample", noise="slow", noise_correlation=0.99))
    assert 0 < np.abs(np.diff(slow, axis=0)).mean() < 0.5 * np.abs(np.diff(fresh, axis=0)).mean()


def test_stickiness_makes_actions_change_less():
    seen = walk(1, 64).repeat(2, 0)

    def change(stickiness):
        policy = make("mac", decode="best", stickiness=stickiness, candidates=64)
        generator = torch.Generator().manual_seed(0)
        first, state = policy.step(seen[0], None, generator=generator)
        second, _ = policy.step(seen[1], state, generator=generator)
        return np.abs(second - first).mean()

    assert change(20.0) < 0.8 * change(0.0)


def test_transported_noise_has_the_mixtures_distribution():
    mixture = MixtureConditional(
        torch.log(torch.tensor([0.2, 0.5, 0.3])), torch.tensor([1.0, -2.0, 0.5]), torch.tensor([-1.0, 0.0, -0.5])
    )
    noise = torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0))
    one_each = MixtureConditional(
        *(t.expand(len(noise), 3) for t in (mixture.log_weights, mixture.means, mixture.log_stds))
    )
    drawn = transport(one_each, noise).sort().values
    for x in (-3.0, -1.0, 0.0, 0.7, 1.2):
        normal = torch.distributions.Normal(mixture.means, mixture.log_stds.exp())
        expected = float((mixture.log_weights.exp() * normal.cdf(torch.tensor(x))).sum())
        assert abs(float((drawn <= x).double().mean()) - expected) < 0.005
