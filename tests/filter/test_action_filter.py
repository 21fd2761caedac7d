"""The action filter is a good gymnasium environment, and its vector twin does the same for many."""

import pickle
import resource
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from stable_baselines3.common.env_checker import check_env as stable_baselines_check

import envs  # noqa: F401
from benchmarks.action_filter import SPACES as SIZE_OF_THE_KITCHEN
from benchmarks.action_filter import calls, measure, overheads
from mac_policy import ActionFilter, VectorActionFilter
from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from tests.evaluation.small_environments import LENGTH, Line
from tests.policies.conftest import ACTION, OBSERVATION, SPACES, make

FORMS = [None, 2, [2, 0], 3]
NOT_ABOUT_THE_FILTER = [
    "different from the unwrapped version",
    "symmetric and normalized",
    "action space is not based off a numpy array",
]


def command(dims, values, mask):
    """An action of one of the two forms."""
    if dims is None:
        return {"action": values, "mask": mask}
    return values[..., dims] if isinstance(dims, list) else values[..., :dims]


def episode(env, actions, seed=0):
    """Observations, reports and what the environment was given."""
    found = [env.reset(seed=seed)[0]]
    reports = []
    for action in actions:
        observation, _, _, _, info = env.step(action)
        found.append(observation)
        reports.append(info.get("action_filter"))  # none where all environments are being reset
    return np.array(found), reports


def draws(env, n, seed=1):
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(n)]


@pytest.mark.parametrize("dims", FORMS, ids=str)
@pytest.mark.parametrize("kind", ["bc", "mac"])
def test_the_checkers_of_gymnasium_and_stable_baselines_pass(kind, dims):
    settings = {"decode": "sample"} if kind == "mac" else {}
    env = ActionFilter(Line(), make(kind, **settings), dims, likelihood=kind == "mac", max_change=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gymnasium_check(env, skip_render_check=True)
        stable_baselines_check(env)
    for warning in caught:
        assert any(known in str(warning.message) for known in NOT_ABOUT_THE_FILTER), warning.message


def test_the_action_space_is_that_of_the_dims_or_has_a_mask():
    policy = make("bc")
    assert ActionFilter(Line(), policy, [2, 0]).action_space == spaces.Box(
        SPACES.action.low[[2, 0]], SPACES.action.high[[2, 0]]
    )
    assert ActionFilter(Line(), policy, "[2,0]").action_space.shape == (2,)
    assert ActionFilter(Line(), policy).action_space == spaces.Dict(
        action=SPACES.action, mask=spaces.MultiBinary(ACTION)
    )


@pytest.mark.parametrize("dims", FORMS, ids=str)
def test_what_is_commanded_reaches_the_robot_and_the_rest_is_the_policys(dims):
    policy, line = make("mac"), Line()
    env = ActionFilter(line, policy, dims, likelihood=True)
    seen, _ = env.reset(seed=0)
    for action in draws(env, LENGTH):
        mask = (
            action["mask"].astype(bool)
            if dims is None
            else np.isin(np.arange(ACTION), range(dims) if isinstance(dims, int) else dims)
        )
        values = np.zeros(ACTION, np.float32)
        if dims is None:
            values[mask] = action["action"][mask]
        else:
            values[dims if isinstance(dims, list) else np.arange(dims)] = action
        expected = policy.act(seen, values, mask, deterministic=True)
        likelihood = policy.log_prob(seen, values, query=mask)[0]
        seen, *_, info = env.step(action)
        taken, report = line.taken[-1], info["action_filter"]
        assert taken[mask].tobytes() == values[mask].tobytes()
        np.testing.assert_array_equal(taken, expected)
        np.testing.assert_array_equal(report["action"], taken)
        np.testing.assert_array_equal(report["mask"], mask)
        assert report["log_likelihood"] == pytest.approx(likelihood)
        assert 0 < report["fill_ms"] < 1000


def test_masks_with_no_dims_and_with_all():
    policy, line = make("mac"), Line()
    env = ActionFilter(line, policy, likelihood=True)
    seen, _ = env.reset(seed=0)
    values = SPACES.action.high
    *_, info = env.step({"action": values, "mask": np.zeros(ACTION, np.int8)})
    np.testing.assert_array_equal(line.taken[0], policy.act(seen, deterministic=True))
    assert info["action_filter"]["log_likelihood"] == 0
    env.step({"action": values, "mask": np.ones(ACTION, np.int8)})
    assert line.taken[1].tobytes() == values.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dims", [None, 2], ids=str)
def test_a_command_that_is_not_finite_never_reaches_the_robot(dims, bad):
    line = Line()
    env = ActionFilter(line, make("mac"), dims)
    env.reset(seed=0)
    good, mask = np.float32([0.5, -1.5, 0.25]), np.array([1, 1, 0], np.int8)
    env.step(command(dims, good, mask))
    with pytest.warns(RuntimeWarning, match="not finite") as warned:
        infos = [env.step(command(dims, np.float32([bad, -1.0, 0.25]), mask))[-1]["action_filter"] for _ in range(3)]
    assert len(warned) == 1
    for count, report in enumerate(infos, 1):
        assert (report["fallback"], report["invalid"], report["fallback_steps"], report["invalid_steps"]) == (
            True,
            True,
            count,
            count,
        )
        assert report["action"].tolist() == [0.5, -1.0, line.taken[0][2]]
        assert report["mask"].tolist() == [False, True, False]
    report = env.step(command(dims, good, mask))[-1]["action_filter"]
    assert (report["fallback"], report["invalid"], report["fallback_steps"]) == (False, False, 3)
    assert env.counts["invalid"] == 3
    env.reset()
    assert env.step(command(dims, good, mask))[-1]["action_filter"]["fallback_steps"] == 0


@pytest.mark.parametrize(
    ("dims", "action"),
    [
        (2, np.zeros(3)),
        (2, np.zeros(1)),
        (2, 0.5),
        (2, None),
        (2, "left"),
        (2, [[0.0], [0.0, 1.0]]),
        (2, {"action": np.zeros(3), "mask": np.ones(3)}),
        (None, np.zeros(3)),
        (None, {"action": np.zeros(2), "mask": np.ones(3)}),
        (None, {"action": np.zeros(3), "mask": np.ones(2)}),
        (None, {"action": np.zeros(3)}),
        (None, {"action": np.zeros(3), "mask": np.full(3, 0.5)}),
        (None, {}),
    ],
    ids=str,
)
def test_a_command_of_the_wrong_size_or_kind_holds_the_last_action(dims, action):
    line = Line()
    env = ActionFilter(line, make("mac"), dims)
    env.reset(seed=0)
    env.step(draws(env, 1)[0])
    with pytest.warns(RuntimeWarning, match="wrong size"):
        report = env.step(action)[-1]["action_filter"]
    assert report["fallback"]
    assert report["invalid"]
    assert line.taken[1].tolist() == line.taken[0].tolist()


def test_an_episode_that_ends_while_the_operator_lets_go_leaves_nothing_behind():
    """The next episode begins as a first one does: no hand-over goes on, no chunk, no last action."""
    policy = make("mac", history=2, horizon=3, execute=3)
    env, fresh = (ActionFilter(Line(), policy, max_change=0.01) for _ in range(2))
    held = {"action": SPACES.action.high, "mask": np.ones(ACTION, np.int8)}
    free = {"action": SPACES.action.high, "mask": np.zeros(ACTION, np.int8)}
    env.reset(seed=0)
    for step in range(LENGTH):
        *_, terminated, _, info = env.step(held if step < LENGTH - 2 else free)
    assert terminated
    assert np.abs(info["action_filter"]["action"] - SPACES.action.high).max() <= 0.0201  # in the middle of it
    after, first = episode(env, [free] * 4, seed=5), episode(fresh, [free] * 4, seed=5)
    np.testing.assert_array_equal(after[0], first[0])
    for one, other in zip(after[1], first[1], strict=True):
        np.testing.assert_array_equal(one["action"], other["action"])


def test_a_step_before_the_first_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        ActionFilter(Line(), make("bc"), 2).step(np.zeros(2))
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        VectorActionFilter(SyncVectorEnv([Line]), make("bc"), 2).step(np.zeros((1, 2)))


def fork_policy(**settings):
    space = gymnasium.make("mac_policy/fork-v0")
    small = {"width": 16, "depth": 1, "query_width": 8, "components": 3}
    return make_policy("mac", Spaces.of(space.observation_space, space.action_space), small | settings).eval()


@pytest.mark.parametrize("form", ["policy", "folder"])
@pytest.mark.parametrize("dims", [None, [1]], ids=str)
def test_it_is_rebuilt_from_its_spec(form, dims, tmp_path):
    policy = (
        save_policy(fork_policy(decode="sample"), tmp_path / "mac")
        if form == "folder"
        else fork_policy(decode="sample")
    )
    env = ActionFilter(
        gymnasium.make("mac_policy/fork-v0"), policy, dims, temperature=0.5, max_change=np.array([0.1, 0.2])
    )
    spec = env.spec
    if form == "folder":
        spec = gymnasium.envs.registration.EnvSpec.from_json(spec.to_json())
    again = gymnasium.make(spec)
    assert isinstance(again, ActionFilter)
    assert again.action_space == env.action_space
    assert (again.completion.filler.temperature, again.completion.filler.hand_over.limit.tolist()) == (0.5, [0.1, 0.2])
    actions = draws(env, 5)
    one, other = episode(env, actions), episode(again, actions)
    np.testing.assert_array_equal(one[0], other[0])
    assert all(a["action"].tolist() == b["action"].tolist() for a, b in zip(one[1], other[1], strict=True))


@pytest.mark.parametrize("dims", [None, 2], ids=str)
def test_it_pickles_in_the_middle_of_an_episode(dims):
    env = ActionFilter(Line(), make("mac", decode="sample", history=2), dims, max_change=0.1, deadline_ms=5000)
    actions = draws(env, 6)
    episode(env, actions[:3])
    copy = pickle.loads(pickle.dumps(env))
    for action in actions[3:]:
        np.testing.assert_array_equal(env.step(action)[0], copy.step(action)[0])


def filtered(policy, dims=None):
    return ActionFilter(Line(), policy, dims)


@pytest.mark.parametrize("dims", [None, [2, 0]], ids=str)
@pytest.mark.parametrize("form", ["policy", "folder"])
def test_asynchronous_environments_do_as_synchronous_ones(form, dims, tmp_path):
    policy = save_policy(make("mac"), tmp_path / "mac") if form == "folder" else make("mac")
    makers = [partial(filtered, policy, dims)] * 2
    vectors = [AsyncVectorEnv(makers), SyncVectorEnv(makers)]
    try:
        actions = draws(vectors[1], LENGTH + 3)
        one, other = (episode(vector, actions) for vector in vectors)
        np.testing.assert_allclose(one[0], other[0], atol=1e-5)
        for a, b in zip(one[1], other[1], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a["action"], b["action"], atol=1e-5)
    finally:
        for vector in vectors:
            vector.close()


def compare(reports, expected, entries=("action", "mask", "fallback", "invalid", "fallback_steps", "log_likelihood")):
    """Whether the reports of a VectorActionFilter are those of ActionFilters in a SyncVectorEnv."""
    for one, other in zip(reports, expected, strict=True):
        for entry in entries:
            stepped = other[f"_{entry}"]
            np.testing.assert_array_equal(one[f"_{entry}"], stepped)
            np.testing.assert_allclose(one[entry][stepped], other[entry][stepped], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("dims", [None, [2, 0]], ids=str)
@pytest.mark.parametrize("settings", [{}, {"history": 2, "horizon": 3, "execute": 2}], ids=["plain", "chunks"])
def test_the_vector_twin_does_what_its_rows_would_do_alone(settings, dims):
    """Over several episodes of different lengths, with the subset changing and with bad commands in between."""
    policy, lengths = make("mac", **settings), [3, 5, 8]
    options = {"likelihood": True, "max_change": 0.2}
    alone = SyncVectorEnv([lambda n=n: ActionFilter(Line(n), policy, dims, **options) for n in lengths])
    twin = VectorActionFilter(SyncVectorEnv([partial(Line, n) for n in lengths]), policy, dims, **options)
    assert twin.action_space == alone.action_space
    assert twin.single_action_space == alone.single_action_space
    actions = draws(alone, 20)
    values = actions[4]["action"] if dims is None else actions[4]
    values[1, 0] = np.nan
    if dims is None:
        actions[4]["mask"][1, 0] = 1
    with pytest.warns(RuntimeWarning, match="not finite"):
        expected = episode(alone, actions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = episode(twin, actions)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-4)
    compare(found[1], expected[1])
    assert sum(report["fallback"].sum() for report in found[1]) == 1


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rows_begin_anew_in_every_mode_of_autoreset(mode):
    """A hand-over as slow as this one would be seen if it, or a last action, went on into the next episode."""
    policy, lengths = make("mac"), [2, 9]
    vector = SyncVectorEnv([partial(Line, n) for n in lengths], autoreset_mode=mode)
    twin = VectorActionFilter(vector, policy, max_change=1e-3)
    seen, _ = twin.reset(seed=0)
    held = {"action": np.tile(SPACES.action.high, (2, 1)), "mask": np.ones((2, ACTION), np.int8)}
    free = {"action": held["action"], "mask": np.zeros((2, ACTION), np.int8)}
    seen, *_ = twin.step(held)
    seen, _, ended, _, _ = twin.step(held)
    assert ended.tolist() == [True, False]
    if mode is AutoresetMode.DISABLED:
        seen, _ = twin.reset(options={"reset_mask": ended})
    elif mode is AutoresetMode.NEXT_STEP:
        seen, *_, info = twin.step(held)
        assert info["action_filter"]["_action"].tolist() == info["_action_filter"].tolist() == [False, True]
    *_, info = twin.step(free)
    action = info["action_filter"]["action"]
    np.testing.assert_allclose(action[0], policy.act(seen[0], deterministic=True), atol=2e-5)  # nothing to hand over
    np.testing.assert_allclose(action[1], SPACES.action.high, atol=1.1e-3)  # in the middle of it


def test_environments_in_other_processes_are_filled_in_too():
    """One policy here, the environments elsewhere: the same as with all of them here."""
    vectors = [VectorActionFilter(kind([Line] * 2), make("mac"), [2, 0]) for kind in (AsyncVectorEnv, SyncVectorEnv)]
    try:
        one, other = (episode(vector, draws(vectors[1], LENGTH + 3)) for vector in vectors)
        np.testing.assert_array_equal(one[0], other[0])
    finally:
        for vector in vectors:
            vector.close()


def test_a_vector_commands_a_batch_of_one_too():
    twin = VectorActionFilter(SyncVectorEnv([Line]), make("bc"), 2)
    twin.reset(seed=[3])
    *_, info = twin.step(np.float32([[0.5, -0.5]]))
    assert info["action_filter"]["action"][0, :2].tolist() == [0.5, -0.5]


@pytest.mark.filterwarnings("ignore")
def test_a_vector_command_of_the_wrong_size_holds_every_row():
    twin = VectorActionFilter(SyncVectorEnv([Line] * 2), make("bc"), 2)
    twin.reset(seed=0)
    *_, first = twin.step(np.zeros((2, 2)))
    *_, info = twin.step(np.zeros((2, 3)))
    assert info["action_filter"]["invalid"].all()
    np.testing.assert_array_equal(info["action_filter"]["action"], first["action_filter"]["action"])


def both(env, policy, *args, **settings):
    """Each of the two wrappers."""
    return [
        lambda: ActionFilter(env(), policy, *args, **settings),
        lambda: VectorActionFilter(SyncVectorEnv([env]), policy, *args, **settings),
    ]


WIDE = spaces.Box(-1, 1, (7,), np.float32)


@pytest.mark.parametrize(
    ("spaces_of_env", "message"),
    [
        ({"observation_space": WIDE}, r"observations of shape \(4,\), but the environment gives \(7,\)"),
        ({"action_space": WIDE}, r"actions of shape \(3,\), but the environment takes \(7,\)"),
        ({"action_space": spaces.Box(-5, 5, (ACTION,))}, r"bounds \[.*\] are not the environment's \[.*-5.*\]"),
        ({"action_space": spaces.Discrete(3)}, r"action space must be a Box.*Discrete\(3\)"),
        ({"action_space": spaces.Box(-np.inf, 5, (ACTION,))}, "must be bounded on both sides"),
        ({"observation_space": spaces.Dict(a=WIDE)}, "FlattenObservation"),
    ],
    ids=["observation", "action", "bounds", "discrete", "unbounded", "dict"],
)
@pytest.mark.parametrize("form", ["policy", "folder"])
def test_a_policy_for_other_spaces_is_refused_with_both_named(form, spaces_of_env, message, tmp_path):
    policy = save_policy(make("bc"), tmp_path / "bc") if form == "folder" else make("bc")
    for build in both(partial(Line, **spaces_of_env), policy, None):
        with pytest.raises(ValueError, match=message):
            build()


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (4, "operator_dims = 4 cannot be used.*0..3"),
        (-1, "operator_dims = -1"),
        ([0, 3], "no dim 3"),
        ([1, 1], "repeated"),
        ([], r"operator_dims = \[\]"),
        (0, "operator_dims = 0 leaves nothing to command"),
        (1.5, "operator_dims = 1.5"),
        ("random-2", "operator_dims=None, with which the operator names"),
        ("rand", "'rand'"),
    ],
    ids=str,
)
def test_operator_dims_that_make_no_sense_are_refused(dims, message):
    for build in both(Line, make("bc"), dims):
        with pytest.raises(ValueError, match=message):
            build()


def test_settings_that_make_no_sense_are_refused(tmp_path):
    for build in both(Line, make("bc"), likelihood=True):
        with pytest.raises(ValueError, match="likelihood=True needs a policy with one; a bc policy has none"):
            build()
    for build in both(Line, make("bc"), max_change=-1.0):
        with pytest.raises(ValueError, match="max_change"):
            build()
    for build in both(Line, tmp_path):
        with pytest.raises(ValueError, match=r"holds no config\.json"):
            build()


class Unreliable:
    """Steps of a policy that fail in every way now and then."""

    def __init__(self, policy):
        self.step_of_policy, self.calls = policy.step, 0

    def __call__(self, *args, **settings):
        action, state = self.step_of_policy(*args, **settings)
        self.calls += 1
        if self.calls % 97 == 0:
            raise RuntimeError("no answer")
        if self.calls % 89 == 0:
            action[0, 0] = np.nan
        return action, state


def wear(policy, steps):
    """Peak memory that `steps` steps add, in MB; with bad commands, observations and answers in between."""
    space = spaces.Box(-100, 100, (OBSERVATION,), np.float32)
    env = ActionFilter(Line(50, space), policy, max_change=0.1)
    policy.step = Unreliable(policy)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    before = 0
    for step in range(steps):
        if step == min(5000, steps // 4):  # after all that is allocated once
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        values = rng.normal(0, 1, ACTION).astype(np.float32)
        if step % 101 == 0:
            values[0] = np.nan
        *_, terminated, _, info = env.step({"action": values, "mask": rng.random(ACTION) < 0.5})
        assert info["action_filter"]["action"] in SPACES.action
        if terminated:
            env.reset()
    assert env.counts["failed"] >= steps // 97
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


PLANS = {"representation": "absolute", "horizon": 3, "execute": 3, "plans": 0.5}
"""Places in chunks, which are kept while the command agrees with them."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("kind", "settings"), [("bc", {}), ("mac", {}), ("mac", PLANS)])
def test_memory_stays_flat_and_every_action_inside(kind, settings):
    assert wear(make(kind, **settings), 6000) < 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("kind", "settings"), [("bc", {}), ("mac", {}), ("mac", PLANS)])
def test_memory_stays_flat_over_a_hundred_thousand_steps(kind, settings):
    assert wear(make(kind, **settings), 100_000) < 5


def test_the_filter_adds_little_to_the_policys_own_time():
    """Under 10% on a quiet machine (benchmarks/action_filter.py); this bound only catches a much slower one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = overheads(measure(calls(make_policy("mac", SIZE_OF_THE_KITCHEN).eval(), 1), 300))
    finally:
        torch.set_num_threads(threads)
    assert found["filter, fixed dims"]["added_p10"] < 0.3
    assert found["filter, mask each step"]["added_p10"] < 0.3
