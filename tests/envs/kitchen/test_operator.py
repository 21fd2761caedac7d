"""The demonstrator as an operator: an intent of its own for each episode, which it carries out."""

import numpy as np
import pytest

from envs.kitchen import environment as kitchen
from envs.kitchen.goals import GOAL_SETS
from envs.kitchen.operator import ExpertOperator
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_operator

GOALS = "kitchen-complete"
HELD_OUT = 7000


@pytest.fixture(scope="module")
def environments():
    made = [kitchen.make(GOALS) for _ in range(2)]
    yield made
    for env in made:
        env.close()


def test_alone_it_does_all_its_tasks_in_its_own_order_and_then_lets_go():
    env = kitchen.make(GOALS, terminate_on_tasks_completed=False)
    operator = ExpertOperator([env], OperatorDims.parse(9, 9), GOALS)
    observation, info = env.reset(seed=HELD_OUT)
    operator.reset(seeds=HELD_OUT)
    truncated, masks = False, []
    while not truncated:
        command = operator(observation)
        masks.append(command.mask)
        observation, _, _, truncated, info = env.step(np.where(command.mask, command.values, 0.0))
    assert info["completed"] == operator.orders[0]
    assert set(operator.orders[0]) == set(GOAL_SETS[GOALS])
    finished = ~np.array(masks).any(1)
    assert finished.any()
    assert (np.diff(finished.astype(int)) >= 0).all()  # once it has let go it stays so
    env.close()


def test_it_commands_the_same_in_the_same_episode_whatever_its_row(environments):
    dims = OperatorDims.parse([0, 2, 4, 8], 9)
    together, alone = ExpertOperator(environments, dims, GOALS), ExpertOperator(environments[1:], dims, GOALS)
    for _ in range(2):
        seen = np.stack([env.reset(seed=3)[0] for env in environments])
        together.reset(seeds=[1, 3])
        alone.reset(seeds=3)
        for _ in range(15):
            both, one = together(seen), alone(seen[1])
            np.testing.assert_array_equal(both.values[1], one.values)
            assert both.mask.tolist() == [np.isin(np.arange(9), dims.fixed).tolist()] * 2
            seen = np.stack([env.step(a)[0] for env, a in zip(environments, both.values, strict=True)])


def test_every_episode_has_an_order_of_its_own(environments):
    operator = ExpertOperator(environments, OperatorDims.parse(4, 9), "kitchen-partial")
    drawn = set()
    for seed in range(0, 60, 2):
        operator.reset(seeds=[seed, seed + 1])
        drawn |= set(operator.orders)
    assert len(drawn) > 15


def test_a_row_that_was_never_begun_does_not_disturb(environments):
    operator = ExpertOperator(environments, OperatorDims.parse(4, 9), GOALS)
    seen = np.stack([env.reset(seed=0)[0] for env in environments])
    operator.reset([True, False], 5)
    assert np.isfinite(operator(seen).values).all()


def test_it_can_be_handed_to_the_registry(environments):
    dims = OperatorDims.parse(4, 9)
    operator = make_operator(
        "laggy", dims, 2, inner="expert", p=1.0, expert=lambda dims: ExpertOperator(environments, dims, GOALS)
    )
    seen = np.stack([env.reset(seed=0)[0] for env in environments])
    operator.reset(seeds=[0, 1])
    first = operator(seen)
    for env in environments:
        env.step(np.full(9, 0.5))
    np.testing.assert_array_equal(operator(seen).values, first.values)


def test_unknown_goals_are_named(environments):
    with pytest.raises(ValueError, match=r"'kettl'.*did you mean 'kettle'"):
        ExpertOperator(environments, OperatorDims.parse(4, 9), ["kettl"])
