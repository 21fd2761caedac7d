"""Labels as variables: draws, densities by enumeration, what is told, what is inferred, and what a run depends on."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mac_policy.common.labels import Label
from mac_policy.core.training_draws import TrainingMasks, TrainingQueries, uniform_over
from mac_policy.demonstrations import Demonstrations, Episode
from mac_policy.policies import intent, stepping
from mac_policy.policies.checkpoint import load_policy, save_policy
from mac_policy.policies.data import TrainingData
from mac_policy.policies.fit import train
from mac_policy.policies.labels import ABSENT, ASKED, LABEL_WEIGHT, SHOWN, draw_roles, with_labels
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from mac_policy.training.settings import TrainSettings
from tests.policies.conftest import ACTION, OBSERVATION, make

# ---- training asks for labels ----


def test_masks_show_a_label_or_ask_for_it():
    evidence = torch.tensor([[True, False, False], [False, True, True]])
    roles = torch.tensor([[SHOWN, ASKED], [ABSENT, ASKED]])
    found = with_labels(TrainingMasks(evidence, uniform_over(~evidence)), roles)
    assert torch.equal(found.evidence, torch.cat([evidence, roles == SHOWN], 1))
    np.testing.assert_allclose(found.weights[:, 3:], [[0, LABEL_WEIGHT], [LABEL_WEIGHT, LABEL_WEIGHT]])
    assert torch.equal(found.weights[:, :3], uniform_over(~evidence))


def test_queries_read_labels_first_and_answer_them_first():
    ranks = torch.tensor([[-1, 0, 1], [-2, -1, 0], [0, 1, 3]])  # 3: neither given nor queried
    roles = torch.tensor([[SHOWN, ASKED], [ASKED, ASKED], [SHOWN, ABSENT]])
    found = with_labels(TrainingQueries(ranks, torch.ones(3, 3)), roles)
    expected = [[-1, 1, 2, -2, 0], [-2, -1, 2, 0, 1], [0, 1, 5, -1, 5]]
    assert found.ranks.tolist() == expected
    np.testing.assert_allclose(found.weights[:, 3:], LABEL_WEIGHT * (roles == ASKED).double())


def test_each_label_has_its_roles_in_their_shares():
    roles = draw_roles(4000, 2, 0.3, torch.Generator().manual_seed(0))
    for role, share in ((SHOWN, 0.3), (ASKED, 0.35), (ABSENT, 0.35)):
        np.testing.assert_allclose((roles == role).double().mean(0), share, atol=0.03)
    assert abs(float(np.corrcoef(roles.T)[0, 1])) < 0.05


# ---- densities ----


def roughened(kind, **settings):
    policy = make(kind, labelled=True, **settings)
    random = torch.Generator().manual_seed(2)
    for parameter in policy.model.network.parameters():
        parameter.data = 0.4 * torch.randn(parameter.shape, generator=random)
    return policy


@pytest.mark.parametrize(("kind", "settings"), [("mac", {}), ("mac", {"horizon": 2}), ("mac_path", {"masks": "both"})])
def test_what_is_heard_equals_one_density_after_another(kind, settings):
    """p(label | o, what is said) and p(command | o, label, what is said), per row, against log_prob row by row."""
    policy = roughened(kind, **settings)
    random = np.random.default_rng(0)
    seen = random.normal(2.0, 1.0, (4, OBSERVATION)).astype(np.float32)
    action = random.uniform(0.0, 0.5, (4, ACTION)).astype(np.float32)
    mask = np.array([[0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]], bool)
    said = np.array([[-1, -1], [-1, 1], [2, 0], [0, -1]])  # of the label itself, too: that counts for nothing
    values, known = stepping.evidence(policy, intent.inputs.Commanded(action, mask), 4, said)
    observations = torch.from_numpy(seen)
    context = policy.normalizer.observations(observations)
    frame = policy.variables.frame(observations)
    with torch.no_grad():
        for label, number in enumerate((3, 2)):
            heard = intent.hear(policy, label, values, known, context, frame)
            np.testing.assert_allclose(np.exp(heard.prior).sum(1), 1.0, atol=1e-6)
            column = policy.variables.chunk + label
            for row in range(4):
                others = {name: int(said[row, i]) for i, name in enumerate(("task", "side")) if i != label}
                for code in range(number):
                    x = values[row : row + 1].clone()
                    given = torch.zeros_like(x, dtype=torch.bool)
                    for i, value in enumerate(said[row]):
                        if i != label and value >= 0:
                            given[0, policy.variables.chunk + i] = True
                    query = torch.zeros_like(given)
                    query[0, column] = True
                    x[0, column] = code
                    alone = policy.model.log_prob(
                        x, query=query, given=given, factorization=policy.factorization, context=context[row : row + 1]
                    )
                    assert float(alone) == pytest.approx(heard.prior[row, code], abs=1e-5)
                    if not mask[row].any():
                        assert heard.command[row, code] == 0.0
                        continue
                    labels = others | {("task", "side")[label]: code}
                    one = policy.log_prob(
                        seen[row], action[row], query=mask[row], given=np.zeros(3, bool), labels=labels
                    )
                    scale = np.log(policy.variables.std[:ACTION].numpy())[mask[row]].sum()
                    assert float(one[0]) + scale == pytest.approx(heard.command[row, code], abs=1e-3)


@pytest.mark.parametrize("settings", [{}, {"horizon": 3, "execute": 3, "plans": 0.5}], ids=str)
def test_one_row_on_the_quick_path_answers_as_in_a_batch(settings):
    policy = roughened("mac", **settings)
    random = np.random.default_rng(1)
    seen = random.normal(2.0, 1.0, (3, 5, OBSERVATION)).astype(np.float32)
    command = random.uniform(0.0, 0.5, (3, 5, ACTION)).astype(np.float32)
    mask = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 0]], bool)
    labels = [["kettle", None, None], [None, None, None], [None, "light", 0], [None] * 3, [None] * 3]
    together, alone = None, [None] * 3
    for step in range(5):
        told = {"task": labels[step]}
        action, together = policy.step(
            seen[:, step], together, command[:, step], np.tile(mask[step], (3, 1)), labels=told, deterministic=True
        )
        for row in range(3):
            one, alone[row] = policy.step(
                seen[row, step],
                alone[row],
                command[row, step],
                mask[step],
                labels={"task": labels[step][row]},
                deterministic=True,
            )
            np.testing.assert_allclose(action[row], one, atol=2e-4)
            for many, single in zip(together.beliefs, alone[row].beliefs, strict=True):
                np.testing.assert_allclose(many[row], single[0], atol=1e-4)
            assert (together.assumed[row] == alone[row].assumed[0]).all()


@pytest.mark.parametrize("rows", [1, 5])
def test_a_class_that_is_ruled_out_need_not_be_heard(rows, monkeypatch):
    policy = roughened("mac")
    rule, random = policy.belief_rules[0], np.random.default_rng(2)
    monkeypatch.setattr("mac_policy.policies.belief.IMPOSSIBLE", 0.25)
    seen = torch.from_numpy(random.normal(2.0, 1.0, (rows, OBSERVATION)).astype(np.float32))
    action = random.uniform(0.0, 0.5, (rows, ACTION)).astype(np.float32)
    held = intent.inputs.Commanded(action, np.tile([True, False, True], (rows, 1)))
    values, known = stepping.evidence(policy, held, rows)
    given = values, known, policy.normalizer.observations(seen), policy.variables.frame(seen)
    with torch.no_grad():
        few, all_heard = (intent.hear(policy, 0, *given, every=every) for every in (False, True))
    possible = rule.possible(few.prior)
    assert not possible.all()  # some are ruled out here
    np.testing.assert_allclose(few.command[possible], all_heard.command[possible], atol=1e-5)
    assert (few.command != all_heard.command).any()
    assert (all_heard.command != 0).all()
    before = np.full((rows, 3), 1 / 3)
    np.testing.assert_allclose(rule.update(before, few), rule.update(before, all_heard), atol=1e-6)


# ---- a task that the label decides ----

TASK = Label("task", ("up", "down", "none"))
TOY = Spaces.of(
    spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Box(np.float32([-1, -1]), np.float32([1, 1])), labels=[TASK]
)


def toy_demonstrations(episodes=30, steps=30, known=True):
    """The first dim goes up, down or nowhere, the second the other way; the observation says nothing."""
    random, made = np.random.default_rng(0), []
    for _ in range(episodes):
        code = random.integers(0, 3, 3).repeat(steps // 3)
        way = np.array([0.6, -0.6, 0.0])[code]
        actions = np.stack([way, -way], 1) + random.normal(0, 0.05, (steps, 2))
        zeros, no = np.zeros(steps, np.float32), np.zeros(steps, bool)
        observations = random.normal(size=(steps + 1, 2)).astype(np.float32)
        labels = code[:, None] if known else np.full((steps, 1), -1)
        made.append(Episode(observations, actions.astype(np.float32), zeros, no, no, labels=labels))
    return Demonstrations.of(made, name="toy", kind="scripted")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    settings = {"width": 32, "depth": 2, "query_width": 32, "query_depth": 2, "components": 4, "evidence_noise": 0.1}
    policy = make_policy("mac", TOY, settings)
    folder = tmp_path_factory.mktemp("toy") / "mac-s0"
    training = TrainSettings(steps=400, batch_size=256, validation=0.2, learning_rate=3e-3, ema=0.98)
    train(policy, toy_demonstrations(), training, folder, quiet=True)
    return load_policy(folder), folder


def test_a_policy_does_what_it_is_told(toy):
    policy, _ = toy
    seen = np.random.default_rng(3).normal(size=(3, 2))
    action = policy.act(seen, labels={"task": ["up", "down", "none"]}, deterministic=True)
    np.testing.assert_allclose(action, [[0.6, -0.6], [-0.6, 0.6], [0.0, 0.0]], atol=0.1)


def test_a_command_tells_what_is_wanted(toy):
    policy, _ = toy
    seen = np.random.default_rng(4).normal(size=(2, 2))
    command, mask = np.array([[0.0, 0.6], [0.0, -0.6]]), [False, True]
    action, state = policy.step(seen, None, command, mask, deterministic=True)
    np.testing.assert_allclose(action[:, 0], [-0.6, 0.6], atol=0.1)
    assert state.beliefs[0].argmax(1).tolist() == [1, 0]
    assert state.assumed.tolist() == [[1], [0]]


def test_a_belief_is_kept_and_follows_a_change_of_mind(toy):
    policy, _ = toy
    seen, mask, state = np.zeros(2), [False, True], None
    for _ in range(5):
        _, state = policy.step(seen, state, [0.0, 0.6], mask)
    assert state.beliefs[0][0, 1] > 0.9
    _, later = policy.step(seen, state)
    assert later.assumed.item() == 1  # released, and still believed
    for _ in range(5):
        _, later = policy.step(seen, later, [0.0, -0.6], mask)
    assert later.assumed.item() == 0
    begun = policy.step(seen, later.reset(np.array([True])))[1]
    np.testing.assert_allclose(begun.beliefs[0], policy.step(seen)[1].beliefs[0], atol=1e-6)


def test_what_is_told_is_believed_until_something_else_is_heard(toy):
    policy, _ = toy
    _, state = policy.step(np.zeros(2), None, labels={"task": "down"})
    assert state.beliefs[0].tolist() == [[0.0, 1.0, 0.0]]
    assert policy.step(np.zeros(2), state)[1].assumed.item() == 1


def test_the_plan_is_dropped_when_what_it_serves_changes():
    policy = roughened("mac", horizon=3, execute=3)
    seen = np.full((2, OBSERVATION), 2.0)
    _, state = policy.step(seen, labels={"task": "kettle", "side": "left"})
    _, after = policy.step(seen, state, labels={"task": ["kettle", "light"], "side": "left"})
    assert after.age.tolist() == [2, 1]


def test_nothing_is_assumed_of_a_flat_belief_or_on_request(toy):
    _, folder = toy
    for settings in ({"least_belief": 0.99}, {"assume": "nothing"}):
        policy = load_policy(folder, settings=settings)
        _, state = policy.step(np.zeros(2))
        assert state.assumed.item() == -1
    sampling = load_policy(folder, settings={"assume": "sampled"})
    random = torch.Generator().manual_seed(0)
    _, state = sampling.step(np.zeros((600, 2)), generator=random)
    shares = np.bincount(state.assumed[:, 0], minlength=3) / 600
    np.testing.assert_allclose(shares, state.beliefs[0].mean(0), atol=0.06)


def test_a_blind_policy_hears_no_command(toy):
    policy, _ = toy
    _, blind = policy.step(np.zeros(2))
    _, unheld = policy.step(np.zeros(2), None, [0.5, 0.5], [False, False])
    np.testing.assert_array_equal(blind.beliefs[0], unheld.beliefs[0])


def test_labels_come_back_from_a_folder(toy, tmp_path):
    policy, _ = toy
    again = load_policy(save_policy(policy, tmp_path / "copy"))
    assert again.labels == (TASK,)
    assert again.variables.list[-1].classes == TASK.classes
    assert float(again.rules[0].tempering) == float(policy.rules[0].tempering)
    seen = np.random.default_rng(5).normal(size=(4, 2))
    told = {"task": ["up", None, "none", "down"]}
    np.testing.assert_array_equal(
        again.act(seen, labels=told, deterministic=True), policy.act(seen, labels=told, deterministic=True)
    )


def test_a_run_depends_on_its_labels(toy, tmp_path):
    settings = TrainSettings(steps=2, batch_size=8, validation=0.2)
    small = {"width": 8, "depth": 1, "query_width": 8}
    demos = toy_demonstrations(4)
    train(make_policy("mac", TOY, small), demos, settings, tmp_path / "run", quiet=True)
    again = train(make_policy("mac", TOY, small), demos, settings, tmp_path / "run", quiet=True)
    assert again.resumed_from == 2
    other = Demonstrations.of(
        [Episode(**{**vars(e), "labels": (e.labels + 1) % 3}) for e in demos.episodes], name="toy", kind="scripted"
    )
    with pytest.raises(ValueError, match="labels_sha256"):
        train(make_policy("mac", TOY, small), other, settings, tmp_path / "run", quiet=True)
    unlabelled = make_policy("mac", TOY._replace(labels=()), small)
    with pytest.raises(ValueError, match=r"labels was .* and is now None"):
        train(unlabelled, demos, settings, tmp_path / "run", quiet=True)
    train(unlabelled, demos, settings, tmp_path / "other", quiet=True)
    with pytest.raises(ValueError, match="labels was None and is now"):
        train(make_policy("mac", TOY, small), demos, settings, tmp_path / "other", quiet=True)


def test_unknown_labels_are_neither_shown_nor_asked_for(tmp_path):
    policy = make_policy("mac", TOY, {"width": 8, "depth": 1, "query_width": 8})
    known, unknown = toy_demonstrations(4), toy_demonstrations(4, known=False)
    data = [torch.from_numpy(part) for part in (known.observations[:8, None], known.actions[:8, None])]
    inside, draws = torch.ones(8, 1, dtype=torch.bool), policy.draw(8, torch.Generator().manual_seed(0))
    losses = [
        policy(*data, inside, draws, torch.from_numpy(codes).repeat(8, 1)).item()
        for codes in ([[-1]] * np.ones((1, 1), int), np.array([[0]]), np.array([[2]]))
    ]
    assert losses[0] != losses[1]
    grown = policy(*data, inside, draws, torch.full((8, 1), -1))
    grown.backward()
    chunk = policy.variables.chunk
    weight = policy.model.network.output.weight.grad.view(len(policy.variables), policy.head.num_params, -1)
    assert float(weight[chunk:].abs().max()) == 0.0
    train(policy, unknown, TrainSettings(steps=2, batch_size=8), tmp_path / "run", quiet=True)


def test_bc_has_to_be_told():
    policy = make_policy("bc", TOY, {"width": 8, "depth": 1})
    with pytest.raises(ValueError, match="has to be told its labels"):
        policy.act(np.zeros(2))
    one, other = policy.act(np.zeros((2, 2)), labels={"task": ["up", "down"]})
    assert (one != other).any()
    assert policy.num_inputs == 5


@pytest.mark.parametrize("kind", ["mac", "bc"])
def test_a_policy_trained_without_labels_is_as_one_for_spaces_without(kind):
    small = {"width": 8, "depth": 1}
    policy = make_policy(kind, TOY, small | {"labels": False})
    plain = make_policy(kind, TOY._replace(labels=()), small)
    assert policy.labels == ()
    for one, other in zip(policy.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="no labels"):
        policy.act(np.zeros(2), labels={"task": "up"})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "have none"),
        (np.zeros((5, 2), int), "have 2"),
        (np.full((5, 1), 3), r"0\.\.2"),
        (np.full((5, 1), -2), r"0\.\.2"),
        (np.zeros((5, 1)), "expected integers"),
        (np.zeros(5, int), "expected integers"),
        (np.zeros((4, 1), int), "expected integers"),
    ],
)
def test_labels_of_data_that_do_not_fit(labels, message, tmp_path):
    zeros, no = np.zeros(5, np.float32), np.zeros(5, bool)
    episode = Episode(np.zeros((6, 2), np.float32), np.zeros((5, 2), np.float32), zeros, no, no, labels=labels)
    policy = make_policy("mac", TOY, {"width": 8})

    def used():
        demos = Demonstrations.of([episode] * 2, name="toy", kind="scripted")
        train(policy, demos, TrainSettings(steps=1), tmp_path / "run", quiet=True)

    with pytest.raises(ValueError, match=message):
        used()


def test_the_belief_is_that_of_the_next_step(toy):
    policy, _ = toy
    seen, command, mask = np.zeros((2, 2)), [0.0, 0.6], [False, True]
    _, state = policy.step(seen, None, command, mask)
    _, after = policy.step(seen, state, command, mask)
    np.testing.assert_array_equal(policy.belief(seen, command, mask)["task"], state.beliefs[0])
    np.testing.assert_array_equal(policy.belief(seen, command, mask, state=state)["task"], after.beliefs[0])
    np.testing.assert_allclose(policy.belief(seen[0], command, mask)["task"], state.beliefs[0][0], atol=1e-6)
    assert make("mac").belief(np.zeros(OBSERVATION)) == {}


@pytest.mark.parametrize("settings", [{}, {"horizon": 2}, {"representation": "absolute"}], ids=str)
@pytest.mark.parametrize("dims", [(), (1,), (0, 2), (0, 1, 2)], ids=str)
def test_the_quick_form_hears_the_same(settings, dims, monkeypatch):
    policy = roughened("mac", **settings)
    policy.widened.log_wide.fill_(0.7)
    policy.widened.logit_share.fill_(0.4)
    random = np.random.default_rng(2)
    seen, action = random.normal(2.0, 1.0, OBSERVATION), random.uniform(0.0, 0.5, ACTION)
    command = (action, np.isin(np.arange(ACTION), dims)) if dims else (None, None)
    for labels in (None, {"side": "right"}):
        quick = policy.belief(seen, *command, labels=labels)
        with monkeypatch.context() as patched:
            patched.setattr(type(policy), "_is_quick", lambda self, rows: False)
            general = policy.belief(seen, *command, labels=labels)
        for name in ("task", "side"):
            np.testing.assert_allclose(quick[name], general[name], atol=1e-5)


# ---- what training teaches ----


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("mac_path", {}), ("mac", {"subsets": [[0, 1]]}), ("mac", {"weights": "edge"}), ("mac", {"masks": "marginal"})],
)
def test_labels_need_masks_that_teach_any_part_of_a_command(kind, settings):
    with pytest.raises(ValueError, match="masks="):
        make(kind, labelled=True, **settings)
    make(kind, **settings)  # without labels they are fine


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_labels_that_are_never_shown_or_never_asked_for_are_refused(share):
    with pytest.raises(ValueError, match="label_shown"):
        make("mac", labelled=True, label_shown=share)


@pytest.mark.parametrize("kind", ["mac", "mac_path"])
def test_every_edge_that_a_belief_asks_for_is_trained(kind):
    """By enumeration of (evidence, variable) over a million draws' worth of rows, with one label."""
    policy = make_policy(kind, TOY, {"masks": "both", "width": 8, "depth": 1, "query_width": 8, "query_heads": 2})
    draws = policy.own_draws(4000, torch.Generator().manual_seed(0)).asked
    met = set()
    for known, weights in zip(draws.known.flatten(0, 1), draws.weights.flatten(0, 1), strict=True):
        for variable in weights.nonzero()[:, 0].tolist():
            evidence = known if known.dtype == torch.bool else known < known[variable]
            met.add((frozenset(evidence.nonzero()[:, 0].tolist()), variable))
    label = 2
    wanted = {(frozenset(), label)}  # p(label | o)
    for dim in (0, 1):
        for held in [set(), {0}] if dim == 1 else [set()]:
            wanted |= {(frozenset({label, *held}), dim)}  # p(command | o, label), dims in canonical order
            wanted |= {(frozenset(held), dim)}  # the action without a label
    wanted |= {(frozenset({label, 1}), 0), (frozenset({1}), 0)}  # the fill-in of the first dim
    assert wanted <= met


# ---- devices, determinism, fitting ----


def test_everything_of_a_labelled_policy_moves_with_it():
    policy = make("mac", labelled=True, honest_steps=5).to("meta")
    for model in policy._models:
        assert {buffer.device.type for buffer in model.buffers()} == {"meta"}


@pytest.mark.parametrize("decode", ["sample", "best"])
def test_a_path_network_with_labels_samples(decode):
    policy = make("mac_path", labelled=True, masks="both", decode=decode)
    action = policy.act(np.zeros((3, OBSERVATION)), generator=torch.Generator().manual_seed(0))
    assert np.isfinite(action).all()


def test_a_deterministic_policy_draws_no_class(toy):
    policy = load_policy(toy[1], settings={"assume": "sampled"})
    for how in ({"deterministic": True}, {"temperature": 0}):
        found = [policy.act(np.zeros(2), **how) for _ in range(5)]
        assert all((each == found[0]).all() for each in found)


def test_a_drawn_class_stays_while_it_is_believed(toy):
    policy = load_policy(toy[1], settings={"assume": "sampled"})
    random, state, assumed = torch.Generator().manual_seed(0), None, []
    for _ in range(12):
        _, state = policy.step(np.zeros((40, 2)), state, generator=random)
        assumed.append(state.assumed[:, 0])
    changes = (np.diff(np.array(assumed), axis=0) != 0).mean()
    assert changes < 0.1


def test_replayed_episodes_hear_what_steps_hear(toy):
    policy, _ = toy
    demos, mask = toy_demonstrations(3), np.array([False, True])
    heard = intent.replayed(policy, demos, 1, 0, mask)
    policy = load_policy(toy[1], settings={"belief_change": None, "belief_tempering": None})
    expected = policy.rules[0].through(heard)
    episode, state = demos.episodes[1], None
    for step in range(len(episode)):
        _, state = policy.step(episode.observations[step], state, episode.actions[step].clip(-1, 1), mask)
        np.testing.assert_allclose(state.beliefs[0][0], expected[step], atol=1e-5)


def test_the_rule_is_fitted_to_held_out_episodes(toy):
    policy, folder = toy
    again, demos = load_policy(folder), toy_demonstrations(6)
    for buffer in again.rules[0].buffers():
        buffer.fill_(9.0)
    again.fit_beliefs([(policy, demos)])
    once = [float(buffer) for buffer in again.rules[0].buffers()]
    assert 9.0 not in once
    again.fit_beliefs([(policy, demos)])
    assert [float(buffer) for buffer in again.rules[0].buffers()] == once
    again.fit_beliefs([(policy, toy_demonstrations(3, known=False))])  # nothing to fit to
    assert [float(buffer) for buffer in again.rules[0].buffers()] == once


def test_a_told_policy_learns_from_the_steps_whose_label_is_known(tmp_path):
    policy = make_policy("bc", TOY, {"width": 8, "depth": 1})
    some, none = toy_demonstrations(4), toy_demonstrations(4, known=False)
    both = Demonstrations.of([*some.episodes, *none.episodes], name="toy", kind="scripted")
    learned, known = (TrainingData.of(demos, policy, torch.device("cpu")) for demos in (both, some))
    assert learned.rows == known.rows == some.steps < both.steps
    for part, same in zip(learned.batch(torch.arange(some.steps)), known.batch(torch.arange(some.steps)), strict=True):
        torch.testing.assert_close(part, same)
    with pytest.raises(ValueError, match="no step of toy has all of"):
        train(policy, none, TrainSettings(steps=1), tmp_path / "run", quiet=True)
