"""Operators: the same episode brings the same commands, rows are independent, faults come as often as they should."""

import numpy as np
import pytest
import stable_baselines3 as sb3
from gymnasium import spaces

from mac_policy.operators.from_file import ReplayOperator, SB3Operator, algorithm_of
from mac_policy.operators.registry import OPERATORS, make_kind, make_operator
from mac_policy.operators.simple import PolicyOperator, ZeroOperator
from mac_policy.operators.spoilers import DropoutOperator, LaggyOperator, NoisyOperator
from mac_policy.policies.checkpoint import save_policy
from tests.evaluation.small_environments import Counting, Line, held
from tests.policies.conftest import ACTION, OBSERVATION, SPACES, make

BATCH, STEPS = 4, 25
RECORDINGS = [np.full((5 + k, ACTION), k / 10, np.float32) for k in range(4)]


def build(kind, batch, dims="random-2"):
    """An operator of each kind that can be had without a kitchen."""
    dims = held(dims)
    if kind in ("noisy", "laggy", "dropout"):
        inner = Counting(dims, batch)
        wrap = {"noisy": lambda: NoisyOperator(inner, 0.3, SPACES.action), "laggy": lambda: LaggyOperator(inner, 0.3)}
        return wrap.get(kind, lambda: DropoutOperator(inner, 0.3))()
    if kind == "bc-chunks":
        return PolicyOperator(make("bc", history=2, horizon=3, execute=2), dims, batch)
    return (
        ReplayOperator(RECORDINGS, dims, batch)
        if kind == "replay"
        else make_operator(kind, dims, batch, policy=make("bc"))
    )


KINDS = ["bc", "bc-chunks", "noisy", "laggy", "dropout", "zeros", "replay"]


def observations(steps, batch, seed=0):
    return np.random.default_rng(seed).normal(2, 1, (steps, batch, OBSERVATION)).astype(np.float32)


def commands(operator, seen):
    """(T, B, n) values where held, NaN elsewhere."""
    found = [operator(now) for now in seen]
    return np.stack([np.where(command.mask, command.values, np.nan) for command in found])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_episode_brings_the_same_commands_in_whatever_row_and_company(kind):
    seen, seeds = observations(STEPS, BATCH), np.array([3, 8, 3, 12])
    together = build(kind, BATCH)
    together.reset(seeds=np.zeros(BATCH))
    commands(together, seen[:4])  # an episode before leaves nothing behind
    together.reset(seeds=seeds)
    expected = commands(together, seen)
    for row, seed in enumerate(seeds):
        alone = build(kind, 1)
        alone.reset(seeds=seed)
        np.testing.assert_allclose(commands(alone, seen[:, [row]])[:, 0], expected[:, row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_begin_their_episodes_independently(kind):
    seen = observations(STEPS, BATCH)
    operator, expected = build(kind, BATCH), build(kind, BATCH)
    for one in (operator, expected):
        one.reset(seeds=[1, 2, 3, 4])
        commands(one, seen[:6])
    operator.reset(np.array([False, True, False, False]), np.array([99, 7, 99, 99]))
    after, undisturbed = commands(operator, seen[6:]), commands(expected, seen[6:])
    np.testing.assert_array_equal(after[:, [0, 2, 3]], undisturbed[:, [0, 2, 3]])
    fresh = build(kind, BATCH)
    fresh.reset(seeds=7)
    np.testing.assert_array_equal(after[:, 1], commands(fresh, seen[6:])[:, 1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_observation_gets_a_single_command(kind):
    operator, twin = build(kind, 1), build(kind, 1)
    for one in (operator, twin):
        one.reset(seeds=5)
    for now in observations(8, 1):
        single, row = operator(now[0]), twin(now)
        assert single.values.shape == single.mask.shape == (ACTION,)
        assert (single.values == row.values[0]).all()
        assert (single.mask == row.mask[0]).all()
        assert single.values.dtype == np.float32
        assert single.mask.dtype == bool


@pytest.mark.parametrize("spec", [0, 2, [2], 3, "random-1", "random-2-step", "random"], ids=str)
def test_the_dims_held_are_those_of_the_rule(spec):
    operator = ZeroOperator(held(spec), BATCH)
    seeds = np.array([5, 6, 7, 8])
    operator.reset(seeds=seeds)
    for step in range(4):
        assert (operator(np.zeros((BATCH, OBSERVATION))).mask == held(spec).masks(seeds, step)).all()


def test_a_policy_commands_what_it_would_do():
    policy, seen = make("bc"), observations(1, BATCH)[0]
    values, mask = PolicyOperator(policy, held([1]), BATCH)(seen)
    assert (values == policy.act(seen, deterministic=True)).all()
    assert mask.tolist() == [[False, True, False]] * BATCH


def test_a_sampling_policy_commands_its_mode():
    policy, seen = make("mac", decode="sample"), observations(1, BATCH)[0]
    values, _ = PolicyOperator(policy, held(2), BATCH)(seen)
    np.testing.assert_allclose(values, policy.act(seen, deterministic=True), atol=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_noise_hits_its_share_of_steps_with_actions_all_over_the_space(p):
    operator = NoisyOperator(Counting(held(2), 50), p, SPACES.action)
    operator.reset(seeds=np.arange(50))
    values = np.stack([operator(now).values for now in observations(100, 50)])
    hit = (values < 1000) & ~np.isin(values, 1 + np.arange(100)[:, None, None] + 100 * np.arange(50)[:, None])
    assert (hit.all(2) == hit.any(2)).all()
    assert hit.any(2).mean() == pytest.approx(p, abs=0.02)
    if p:
        noise = values[hit].reshape(-1, ACTION)
        assert all(row in SPACES.action for row in noise[:200])
        np.testing.assert_allclose(noise.mean(0), (SPACES.action.low + SPACES.action.high) / 2, atol=0.1)
        np.testing.assert_allclose(noise.min(0), SPACES.action.low, atol=0.05)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.85])
def test_lag_repeats_the_last_command(p):
    operator = LaggyOperator(Counting(held(3), 50), p)
    operator.reset(seeds=0)
    values = np.stack([operator(now).values[:, 0] for now in observations(100, 50)])
    assert (values[0] == 1).all()  # nothing to repeat yet
    due = 1 + np.arange(100)[:, None]
    repeated = values[1:] == values[:-1]
    assert ((values[1:] == due[1:]) | repeated).all()  # the present command or the last one, nothing else
    assert repeated.mean() == pytest.approx(p, abs=0.03)


def test_lag_repeats_the_dims_too_when_they_change():
    operator = LaggyOperator(Counting(held("random-1-step"), 1), 1.0)
    operator.reset(seeds=4)
    first = operator(np.zeros((1, OBSERVATION)))
    for _ in range(10):
        again = operator(np.zeros((1, OBSERVATION)))
        assert (again.mask == first.mask).all()
        assert (again.values == first.values).all()


def test_dropout_lets_go_and_takes_hold_again():
    operator = DropoutOperator(Counting(held(2), 50), 0.2)
    operator.reset(seeds=np.arange(50))
    masks = np.stack([operator(now).mask for now in observations(200, 50)])
    assert not masks[..., 2].any()
    holding = masks[..., 0]
    assert (masks[..., 1] == holding).all()
    assert holding[0].mean() > 0.6
    assert (holding[1:] != holding[:-1]).mean() == pytest.approx(0.2, abs=0.02)
    assert holding.mean() == pytest.approx(0.5, abs=0.06)


def test_dropout_begins_every_episode_with_its_dims_held():
    operator = DropoutOperator(Counting(held(2), 1), 1.0)
    for steps in (3, 4, 3):
        operator.reset()
        holding = [bool(operator(now).mask[0, 0]) for now in observations(steps, 1)]
        assert holding == [False, True, False, True][:steps]  # at p = 1 it changes at every step, the first one too


def test_a_replay_commands_what_was_recorded_and_then_lets_go():
    recording = np.random.default_rng(0).uniform(0, 0.5, (6, ACTION)).astype(np.float32)
    operator = ReplayOperator(recording, held(2))
    operator.reset()
    found = [operator(now) for now in observations(9, 1)]
    for step, action in enumerate(recording):
        assert (found[step].values[0] == action).all()
        assert found[step].mask[0].tolist() == [True, True, False]
    assert not any(command.mask.any() for command in found[6:])


def test_a_replay_of_several_recordings_draws_one_for_each_episode():
    operator = ReplayOperator(RECORDINGS, held(1), 200)
    operator.reset(seeds=np.arange(200))
    drawn = operator(np.zeros((200, OBSERVATION))).values[:, 0]
    assert np.bincount(np.round(10 * drawn).astype(int), minlength=4).min() > 30


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models that were trained for a few steps, on all action dims and on two of them."""
    folder = tmp_path_factory.mktemp("sb3")
    reduced = spaces.Box(SPACES.action.low[[2, 0]], SPACES.action.high[[2, 0]])
    made = {}
    for name, space in (("full", SPACES.action), ("reduced", reduced)):
        model = sb3.PPO("MlpPolicy", Line(action_space=space), n_steps=16, batch_size=16, n_epochs=1, seed=0)
        model.learn(32)
        model.save(folder / name)
        made[name] = model, folder / f"{name}.zip"
    return made


@pytest.mark.parametrize("how", ["model", "path"])
def test_a_model_of_all_action_dims_commands_those_it_holds(models, how):
    model, path = models["full"]
    seen = observations(1, BATCH)[0]
    values, mask = SB3Operator(model if how == "model" else path, held([2, 0]), BATCH)(seen)
    np.testing.assert_array_equal(values, model.predict(seen, deterministic=True)[0])
    assert mask.tolist() == [[True, False, True]] * BATCH


@pytest.mark.parametrize("how", ["model", "path"])
def test_a_model_of_the_held_dims_commands_them_in_their_order(models, how):
    model, path = models["reduced"]
    seen = observations(1, BATCH)[0]
    values, mask = SB3Operator(model if how == "model" else path, held([2, 0]), BATCH)(seen)
    np.testing.assert_array_equal(values[:, [2, 0]], model.predict(seen, deterministic=True)[0])
    assert mask.tolist() == [[True, False, True]] * BATCH


def test_a_model_of_another_size_is_refused(models):
    for dims in ([0], "random-2"):
        with pytest.raises(ValueError, match=r"Box\(.*\(2,\).*all 3 action dims"):
            SB3Operator(models["reduced"][0], held(dims))


@pytest.mark.parametrize("name", ["PPO", "A2C", "SAC", "TD3", "DDPG"])
def test_a_checkpoint_tells_its_algorithm(name, tmp_path):
    model = getattr(sb3, name)("MlpPolicy", Line(), seed=0, policy_kwargs={"net_arch": [8]})
    model.save(tmp_path / "model")
    assert algorithm_of(tmp_path / "model.zip") == name
    seen = observations(1, 2)[0]
    loaded = SB3Operator(tmp_path / "model", held(1), 2)
    np.testing.assert_array_equal(loaded(seen).values, model.predict(seen, deterministic=True)[0])


def test_a_checkpoint_of_another_algorithm_is_refused(tmp_path):
    sb3.DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8]}, buffer_size=10).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"stable_baselines3\.dqn\.policies, which is none of A2C, DDPG"):
        algorithm_of(tmp_path / "model.zip")


def test_the_registry_makes_every_kind(models, tmp_path):
    folder = save_policy(make("bc"), tmp_path / "bc")
    np.savez(tmp_path / "actions.npz", *RECORDINGS)
    settings = {"sb3": {"path": models["full"][1]}, "replay": {"path": tmp_path / "actions.npz"}}
    assert set(OPERATORS) == {"bc", "expert", "noisy", "laggy", "dropout", "zeros", "replay", "sb3"}
    for kind in OPERATORS:
        operator = make_operator(
            kind,
            held(2),
            BATCH,
            policy=folder,
            expert=lambda dims: ZeroOperator(dims, BATCH),
            space=SPACES.action,
            **settings.get(kind, {}),
        )
        operator.reset(seeds=np.arange(BATCH))
        assert operator(observations(1, BATCH)[0]).mask.shape == (BATCH, ACTION)
    lagging = make_operator("laggy", held(2), BATCH, inner="zeros", p=0.85)
    assert isinstance(lagging.inner, ZeroOperator)
    assert lagging.p == 0.85


def test_wrong_settings_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"unknown operator 'lagy'.*did you mean 'laggy'"):
        make_operator("lagy", held(1))
    with pytest.raises(ValueError, match="'expert' operator needs expert"):
        make_operator("expert", held(1))
    with pytest.raises(ValueError, match="'bc' operator needs policy"):
        make_operator("noisy", held(1), space=SPACES.action)
    with pytest.raises(ValueError, match="unknown inner operator 'noisy'"):
        make_operator("laggy", held(1), inner="noisy")
    with pytest.raises(ValueError, match="slow: give the manners to the operator that is passed as inner"):
        make_kind("laggy", {"inner": make_kind("zeros"), "slow": 5})
    with pytest.raises(ValueError, match=r"p of a laggy operator must be in \[0, 1\], got 1.5"):
        LaggyOperator(ZeroOperator(held(1)), 1.5)
    with pytest.raises(ValueError, match="gives 3 action dims, operator_dims are for 9"):
        PolicyOperator(make("bc"), held(4, 9))
    with pytest.raises(ValueError, match=r"\(T, 3\) with T of at least 1, got \(4, 2\)"):
        ReplayOperator(np.zeros((4, 2)), held(1))
    with pytest.raises(ValueError, match="NaN or infinity, first at step 2"):
        ReplayOperator(np.array([[0.0] * 3, [0.0] * 3, [np.nan] * 3]), held(1))
    with pytest.raises(ValueError, match="at least one recording"):
        ReplayOperator([], held(1))
    with pytest.raises(ValueError, match=r"observations must be \(4, obs\), got \(3, 4\)"):
        ZeroOperator(held(1), 4)(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"rows must be \(4,\)"):
        ZeroOperator(held(1), 4).reset([True])
    with pytest.raises(ValueError, match="no stable-baselines3 checkpoint at"):
        SB3Operator(tmp_path / "nothing", held(1))
    (tmp_path / "no.zip").write_text("no archive")
    with pytest.raises(ValueError, match=r"no\.zip is truncated or no stable-baselines3 checkpoint"):
        SB3Operator(tmp_path / "no.zip", held(1))
    with pytest.raises(ValueError, match="commands 3 action dims, the space is"):
        NoisyOperator(ZeroOperator(held(1)), 0.1, spaces.Box(-1, 1, (2,)))
