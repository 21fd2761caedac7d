"""A command during a chunk: the plan in progress is evidence, and is dropped when the command contradicts it."""

import numpy as np
import pytest
import torch

from mac_policy.policies import following, inputs, stepping
from mac_policy.policies.operator_masks import FirstStep, operator_masks
from tests.policies.conftest import ACTION, OBSERVATION, make

KINDS = {
    "mac": {"query_depth": 3},
    "mac_paper": {"masks": "both"},
    "mac-absolute": {"representation": "absolute"},
}


def planner(kind="mac", margin=1e6, **settings):
    """A policy whose weights say something, which keeps its plans unless they cost more than `margin`."""
    policy = make(kind.split("-")[0], horizon=4, execute=4, plans=0.5, **KINDS[kind], **settings)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in policy.model.named_parameters():
        if "output" in name:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
    policy.widened.log_wide.fill_(0.7)
    policy.widened.log_narrow.copy_(torch.linspace(-0.5, 0.5, len(policy.variables)))
    policy.plan_margin.fill_(margin)
    policy.plan_floor.fill_(-abs(margin))
    return policy


def seen(rows, seed=0):
    return np.random.default_rng(seed).normal(2, 1, (rows, OBSERVATION)).astype(np.float32)


def command(rows, dims=(1,)):
    held = np.zeros((rows, ACTION), bool)
    held[:, list(dims)] = True
    return np.tile(np.float32([0.3, -0.5, 0.2]), (rows, 1)), held


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_after_the_present_one_are_kept(kind):
    policy = planner(kind)
    _, state = policy.step(seen(3), None, deterministic=True)
    before = state.plan.copy()
    values, held = command(3)
    action, after = policy.step(seen(3, 1), state, values, held, deterministic=True)
    np.testing.assert_array_equal(after.plan[:, 2:], before[:, 2:])
    assert after.age.tolist() == [2, 2, 2]
    np.testing.assert_array_equal(action[held], values[held])


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_that_costs_too_much_is_dropped_at_once(kind):
    policy = planner(kind, margin=-1e6)
    _, state = policy.step(seen(3), None, deterministic=True)
    values, held = command(3)
    action, after = policy.step(seen(3, 1), state, values, held, deterministic=True)
    assert after.age.tolist() == [1, 1, 1]
    afresh, _ = policy.step(seen(3, 1), None, values, held, deterministic=True)
    np.testing.assert_array_equal(action, afresh)


def test_rows_keep_or_drop_their_own_plans(monkeypatch):
    policy = planner()
    _, state = policy.step(seen(4), None, deterministic=True)
    values, held = command(4)
    held[3] = False  # carries its plan out
    densities = torch.tensor([0.0, 2.0, -9.0]), torch.tensor([0.0, 0.0, -8.0])
    monkeypatch.setattr(following, "_densities", lambda *_: densities)
    policy.plan_margin.fill_(1.0)
    policy.plan_floor.fill_(-5.0)  # of one dim: the third row's command is too unlikely
    action, after = policy.step(seen(4, 1), state, values, held, deterministic=True)
    assert after.age.tolist() == [2, 1, 1, 2]
    np.testing.assert_array_equal(action[3], state.plan[3, 1].clip(*policy_bounds(policy)))


def policy_bounds(policy):
    return policy.spaces.action.low, policy.spaces.action.high


@pytest.mark.parametrize("kind", KINDS)
def test_the_present_step_is_the_models_answer_to_command_and_plan(kind):
    """Against a fill-in by hand, in which the later steps of the plan are given."""
    policy = planner(kind)
    _, state = policy.step(seen(1), None, deterministic=True)
    values, held = command(1)
    now = seen(1, 1)
    action, _ = policy.step(now, state, values, held, deterministic=True)
    ahead = np.full((1, 4, ACTION), np.nan, np.float32)
    ahead[:, 1:3] = state.plan[:, 2:]  # one step of four is done: two are left after the present one
    present = torch.from_numpy(now)
    x = policy.variables.encode(torch.from_numpy(ahead).nan_to_num(), present)
    given = torch.from_numpy(np.isfinite(ahead)).flatten(1)
    mean, std = policy.variables.mean[:ACTION], policy.variables.std[:ACTION]
    x[:, :ACTION] = (torch.from_numpy(values) - mean) / std
    given[:, :ACTION] = torch.from_numpy(held)
    context = policy.normalizer.observations(present)
    low, high = policy.variables.bounds()
    with torch.no_grad():
        for dim in range(ACTION):
            if given[0, dim]:
                continue
            conditional = policy.model.conditionals(
                x, evidence=given, context=context, frame=policy.variables.frame(present)
            )
            x[0, dim] = conditional.mode[0, dim].clamp(low[dim], high[dim])
            given[0, dim] = True
    expected = policy.variables.actions(now, policy.variables.decode(x, present)[:, 0].numpy())
    np.testing.assert_allclose(action, expected, atol=2e-4)


@pytest.mark.parametrize("kind", ["mac", "mac-absolute"])
@pytest.mark.parametrize("dims", [(0,), (1, 2)], ids=str)
def test_the_quick_form_agrees_with_the_general_one(kind, dims, monkeypatch):
    policy = planner(kind)
    _, state = policy.step(seen(1), None, deterministic=True)
    found = []
    for name in ("_densities_one", "_densities"):
        original = getattr(following, name)

        def spy(*args, original=original):
            found.append(original(*args))
            return found[-1]

        monkeypatch.setattr(following, name, spy)
    values, held = command(1, dims)
    fast, _ = policy.step(seen(1, 1), state, values, held, deterministic=True)
    monkeypatch.setattr(type(policy), "_is_quick", lambda self, rows: False)
    slow, _ = policy.step(seen(1, 1), state, values, held, deterministic=True)
    np.testing.assert_allclose(fast, slow, atol=2e-4)
    for quick, general in zip(*found, strict=True):
        torch.testing.assert_close(quick, general, atol=2e-3, rtol=1e-3)


def test_masks_with_plans_give_whole_steps_from_the_second_on():
    masks = operator_masks(ACTION, 4, (), plans=0.5)
    assert isinstance(masks, FirstStep)
    drawn = masks.sample(4000, torch.Generator().manual_seed(0)).unflatten(1, (4, ACTION))
    later = drawn[:, 1:]
    assert (later.all(2) == later.any(2)).all()  # whole steps
    number = later.all(2).sum(1)
    assert (later.all(2) == (torch.arange(3) < number[:, None])).all()  # one after another
    assert float((number > 0).double().mean()) == pytest.approx(0.5, abs=0.03)
    assert (torch.bincount(number)[1:] > 500).all()


def test_without_plans_a_command_ends_the_chunk():
    policy = make("mac", horizon=4, execute=4)
    _, state = policy.step(seen(2), None, deterministic=True)
    _, after = policy.step(seen(2, 1), state, *command(2), deterministic=True)
    assert after.age.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("kind", "settings"), [("mac_path", {}), ("mac", {"masks": "marginal"}), ("mac", {"subsets": [[0, 1]]})]
)
def test_plans_that_training_would_not_teach_to_judge_are_refused(kind, settings):
    with pytest.raises(ValueError, match=r"plans=0\.5 asks how likely any part of a command is"):
        make(kind, horizon=4, execute=4, plans=0.5, **settings)


@pytest.mark.parametrize("ready", [0.0, 1.0])
@pytest.mark.parametrize("floor", [None, -4.0])
def test_the_quick_form_reads_the_honest_network(ready, floor):
    policy = planner("mac", honest_steps=10, honest_floor=floor, min_log_std=-0.5)
    for parameter in policy.honest_network.parameters():
        parameter.data = 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    policy.honest_ready.fill_(ready)
    values, held = command(1)
    x, commanded = stepping.evidence(policy, inputs.commanded(values, held, 1, policy.spaces.action), 1)
    planned = torch.arange(len(policy.variables))[None] >= ACTION
    context = policy.normalizer.observations(torch.from_numpy(seen(1)))
    with torch.inference_mode():
        quick, general = (
            densities(policy, x, commanded, torch.zeros_like(planned), planned, context, None)
            for densities in (following._densities_one, following._densities)
        )
    for one, other in zip(quick, general, strict=True):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=1e-3)
