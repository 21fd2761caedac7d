"""Labels of real values by hindsight: their data, densities, what is said, and a point that is told where to go."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mac_policy.common.labels import Ahead, Label
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.demonstrations import Demonstrations, Episode
from mac_policy.policies import intent, stepping
from mac_policy.policies.checkpoint import load_policy, save_policy
from mac_policy.policies.data import codes_of
from mac_policy.policies.fit import train
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces, spaces_from_json, spaces_to_json
from mac_policy.training.settings import TrainSettings
from tests.policies.conftest import ACTION, LABELS, OBSERVATION, PLACED, SMALL, SPACES, batch, make

AHEAD = (Ahead("x", 0, 3), Ahead("y", 2, 1000))
BOTH = Spaces.of(*SPACES[:3], labels=[AHEAD[0], *LABELS, AHEAD[1]])
PLACES = {"x": 2.3, "y": 2.05}


def made(kind="mac", labels=BOTH.labels, **settings):
    """A small policy with random weights, normalised like the others, of labels of both kinds."""
    policy = make_policy(kind, SPACES._replace(labels=labels), SMALL[kind] | settings, 0)
    policy.normalizer = make("bc").normalizer
    random = torch.Generator().manual_seed(2)
    for parameter in policy.parameters():
        parameter.data = 0.4 * torch.randn(parameter.shape, generator=random)
    return policy.eval()


def codes_for(rows=32):
    """Random codes of the four labels as training gives them, some not known."""
    random = np.random.default_rng(0)
    codes = np.column_stack(
        [random.integers(-1, 3, rows), random.integers(-1, 2, rows), random.normal(2, 1, (rows, 2))]
    )
    codes[random.random((rows, 4)) < [[0, 0, 0.3, 0.3]]] = np.nan
    return torch.from_numpy(np.where(np.isnan(codes) & ([True] * 2 + [False] * 2), -1, codes).astype(np.float32))


# ---- data ----


def episode_of(steps, seed):
    random = np.random.default_rng(seed)
    zeros, no = np.zeros(steps, np.float32), np.zeros(steps, bool)
    observations = random.normal(size=(steps + 1, OBSERVATION)).astype(np.float32)
    actions = random.uniform(0, 0.5, (steps, ACTION)).astype(np.float32)
    labels = np.column_stack([random.integers(-1, 3, steps), random.integers(-1, 2, steps)])
    return Episode(observations, actions, zeros, no, no, labels=labels)


def test_hindsight_is_the_number_that_many_steps_later_or_at_the_end():
    demos = Demonstrations.of([episode_of(steps, steps) for steps in (1, 3, 9)], name="made", kind="scripted")
    codes = codes_of(demos, BOTH.labels)
    expected = [
        [e.observations[min(t + label.steps, len(e)), label.observed] for label in AHEAD]
        for e in demos.episodes
        for t in range(len(e))
    ]
    np.testing.assert_array_equal(codes[:, 2:], np.array(expected))
    np.testing.assert_array_equal(codes[:, :2], demos.labels)


def test_data_need_no_labels_for_it(tmp_path):
    plain = [dataclasses.replace(episode_of(12, seed), labels=None) for seed in range(4)]
    demos = Demonstrations.of(plain, name="made", kind="scripted")
    settings = TrainSettings(steps=3, batch_size=8, validation=0.25)
    for kind in ("mac", "bc"):
        policy = make_policy(kind, SPACES._replace(labels=AHEAD), SMALL[kind])
        found = train(policy, demos, settings, tmp_path / kind, quiet=True)
        assert np.isfinite(found.validation_loss)
        again = load_policy(tmp_path / kind)
        assert again.labels == AHEAD
        said = {"x": 0.1, "y": -0.1}
        seen = plain[0].observations[:2]
        np.testing.assert_array_equal(
            again.act(seen, labels=said, deterministic=True),
            found.policy.act(seen, labels=said, deterministic=True),
        )
    coverage = json.loads((tmp_path / "mac" / "calibration.json").read_text())
    assert len(coverage["coverage50"]) == ACTION + len(AHEAD)
    assert (
        float(load_policy(tmp_path / "mac").widened_labels.log_wide.abs().max()) > 0
    )  # fitted to the held-out episode


def test_categories_come_first_and_spaces_come_back_from_json():
    assert [label.name for label in BOTH.labels] == ["task", "side", "x", "y"]
    assert spaces_from_json(json.loads(json.dumps(spaces_to_json(BOTH)))).labels == BOTH.labels
    listed = made().variables.list[ACTION:]
    assert [(v.name, v.kind, v.role) for v in listed[2:]] == [("x", "real", "label"), ("y", "real", "label")]
    assert made().variables.order.tolist() == [3, 4, 5, 6, 0, 1, 2]


@pytest.mark.parametrize("entry", [{}, {"observed": 0}, {"observed": 0, "steps": 1, "classes": ["a", "b"]}], ids=str)
def test_a_stored_label_is_of_one_kind(entry):
    with pytest.raises(ValueError, match="either classes, or observed and steps"):
        spaces_from_json(spaces_to_json(SPACES) | {"labels": [{"name": "x", **entry}]})


# ---- densities ----


@pytest.mark.parametrize(("kind", "settings"), [("mac", {}), ("mac_path", {"masks": "both"})])
def test_the_joint_density_of_labels_and_actions_is_one_in_all(kind, settings):
    """Sum over a category, integral over a place and an action dim, of p(category, place, action dim | observation)."""
    policy = made(kind, labels=(LABELS[1], AHEAD[0]), components=3, **settings)
    for parameter in policy.parameters():
        parameter.data *= 0.5  # no spread far below the step of the grid
    model = policy.model.double()
    points = torch.linspace(-12, 12, 161, dtype=torch.float64)
    place, action = (part.flatten() for part in torch.meshgrid(points, points, indexing="ij"))
    seen = torch.full((1, OBSERVATION), 0.3, dtype=torch.float64)
    total = 0.0
    with torch.no_grad():
        for side in (0.0, 1.0):
            x = torch.zeros(len(place), len(policy.variables), dtype=torch.float64)
            x[:, 1], x[:, 3], x[:, 4] = action, side, place
            query = torch.tensor([False, True, False, True, True])
            found = model.log_prob(
                x, query=query, factorization=policy.factorization, context=seen, rows_per_context=len(x)
            )
            total += float(found.exp().sum()) * float(points[1] - points[0]) ** 2
    assert total == pytest.approx(1.0, abs=1e-6)


def test_what_is_expected_are_the_moments_of_the_density():
    policy = made(representation="relative")
    policy.widened_labels.log_wide.fill_(0.5)
    seen = np.full(OBSERVATION, 2.2)
    action, mask = np.array([0.2, 0.1, 0.4]), np.array([True, False, True])
    found = policy.belief(seen, action, mask, labels={"y": 2.05, "side": "left"})
    assert found["y"].tolist() == pytest.approx([2.05, 0.0])
    observations = torch.from_numpy(seen[None].astype(np.float32))
    values, known = stepping.evidence(
        policy, intent.inputs.Commanded(action[None], mask[None]), 1, policy.said({"y": 2.05, "side": "left"}, 1)
    )
    points = torch.linspace(-60, 60, 24001)
    x = values.repeat(len(points), 1)
    x[:, 5] = points
    with torch.no_grad():
        density = policy.honest.log_prob(
            x,
            query=torch.arange(7) == 5,
            given=known,
            factorization=policy.factorization,
            context=policy.normalizer.observations(observations),
            frame=policy.frame(observations).repeat(len(x)),
            rows_per_context=len(x),
        ).exp()
    weights = (density / density.sum()).double().numpy()
    place = policy.normalizer.in_unit(points[:, None], [0])[:, 0].double().numpy()
    mean = (weights * place).sum()
    std = np.sqrt((weights * (place - mean) ** 2).sum())
    np.testing.assert_allclose(found["x"], [mean, std], rtol=2e-3, atol=2e-3)
    assert made("bc").belief(seen) == {}


def test_what_is_not_said_has_no_part_in_an_action():
    policy = made()
    seen = np.full((3, OBSERVATION), 2.2)
    told = {"task": "kettle", "side": "left"}
    plain = policy.act(seen, labels=told, deterministic=True)
    for nothing in ({"x": None}, {"x": np.nan, "y": None}, {"x": [None, np.nan, None]}):
        np.testing.assert_array_equal(policy.act(seen, labels=told | nothing, deterministic=True), plain)
    some = policy.act(seen, labels=told | {"x": [None, 2.3, 1.7]}, deterministic=True)
    np.testing.assert_allclose(some[0], plain[0], atol=1e-6)
    assert (some[1:] != plain[1:]).any(1).all()
    assert (some[1] != some[2]).any()


@pytest.mark.parametrize("settings", [{}, {"horizon": 3, "execute": 3, "plans": 0.5}], ids=str)
def test_one_row_on_the_quick_path_answers_as_in_a_batch(settings):
    policy = made(**settings)
    random = np.random.default_rng(1)
    seen = random.normal(2.0, 0.5, (4, 3, OBSERVATION)).astype(np.float32)
    command = random.uniform(0.0, 0.5, (4, 3, ACTION)).astype(np.float32)
    mask = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]], bool)
    places = [[2.3, None, 1.9], [2.3, 2.0, 1.9], [2.3, 2.0, None], [None, None, 2.0]]
    together, alone = None, [None] * 3
    for step in range(4):
        action, together = policy.step(
            seen[step], together, command[step], mask, labels={"x": places[step]}, deterministic=True
        )
        for row in range(3):
            one, alone[row] = policy.step(
                seen[step, row],
                alone[row],
                command[step, row],
                mask[row],
                labels={"x": places[step][row]},
                deterministic=True,
            )
            np.testing.assert_allclose(action[row], one, atol=5e-4)
            np.testing.assert_array_equal(together.assumed[row], alone[row].assumed[0])


def test_a_class_is_inferred_given_the_place_that_is_said():
    policy = made()
    seen, action = np.full((1, OBSERVATION), 2.2), np.array([[0.2, 0.1, 0.4]])
    with torch.no_grad():
        found = policy.belief(seen, labels={"x": 2.3})["task"][0]
        values, known = stepping.evidence(policy, None, 1, policy.said({"x": 2.3}, 1))
        logs = []
        for code in range(3):
            x = values.clone()
            x[0, 3] = code
            logs.append(
                policy.honest.log_prob(
                    x,
                    query=torch.arange(7) == 3,
                    given=known,
                    factorization=policy.factorization,
                    context=policy.normalizer.observations(torch.from_numpy(seen).float()),
                ).item()
            )
    np.testing.assert_allclose(found, np.exp(logs), atol=1e-5)
    one, other = (policy.log_prob(seen, action, labels={"x": place}) for place in (2.3, 1.8))
    assert one != other


def test_a_plan_is_kept_while_the_same_place_is_said():
    policy = made(horizon=3, execute=3)
    seen = np.full((3, OBSERVATION), 2.2)
    told = {"task": "kettle", "side": "left"}
    _, state = policy.step(seen, labels=told | {"x": [2.3, 2.3, None]})
    _, after = policy.step(seen, state, labels=told | {"x": [2.3, 2.4, None]})
    assert after.age.tolist() == [2, 1, 2]


def test_unknown_numbers_are_neither_shown_nor_asked_for():
    policy = made()
    observations, actions, inside = batch(policy)
    draws = policy.draw(len(actions), torch.Generator().manual_seed(0))
    codes = codes_for()
    codes[:, 2:] = torch.nan
    policy(observations, actions, inside, draws, codes).backward()
    weight = policy.model.network.output.weight.grad.view(len(policy.variables), policy.head.num_params, -1)
    assert float(weight[5:].abs().max()) == 0.0
    assert float(weight[:5].abs().max()) > 0.0
    assert torch.isfinite(policy(observations, actions, inside, draws, codes_for()))


@pytest.mark.parametrize("representation", ["relative", "absolute"])
def test_a_number_is_expected_relative_to_its_present_reading(representation):
    """A network that says nothing expects the reading, and leaves actions where they are without the label."""
    spaces_of = PLACED if representation == "absolute" else SPACES
    policy = make_policy("mac", spaces_of._replace(labels=AHEAD), SMALL["mac"] | {"representation": representation})
    policy.normalizer = make("bc").normalizer
    for parameter in policy.parameters():
        torch.nn.init.zeros_(parameter)
    seen = np.random.default_rng(0).normal(2.0, 0.5, (5, OBSERVATION))
    found = policy.belief(seen)
    clipped = policy.normalizer.in_unit(
        policy.normalizer.observations(torch.from_numpy(seen)), list(range(OBSERVATION))
    )
    for label in AHEAD:
        np.testing.assert_allclose(found[label.name][:, 0], clipped[:, label.observed], atol=1e-4)
    plain = make_policy("mac", spaces_of, SMALL["mac"] | {"representation": representation})
    for parameter in plain.parameters():
        torch.nn.init.zeros_(parameter)
    both = [each.act(seen, deterministic=True) for each in (policy, plain)]
    np.testing.assert_allclose(*both, atol=1e-6)


# ---- what may be said ----


@pytest.mark.parametrize("kind", ["mac", "bc"])
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"x": 100.0}, r"'x' is 100; the demonstrations, with a margin, lie in \[-?\d"),
        ({"x": np.inf}, "finite number"),
        ({"x": "left"}, "finite number"),
        ({"x": True}, "finite number"),
        ({"xx": 2.0}, "did you mean 'x'"),
        ({"x": [2.0, 2.1, 2.2]}, "3 entries for 2 rows"),
        (np.array([0.5, 0, 2.0, 2.0]), "unknown class"),
        (np.array([0, 0, np.inf, 2.0]), "finite number"),
        (np.zeros((2, 3)), r"numbers \(2, 4\)"),
    ],
)
def test_wrong_words_are_named(kind, said, message):
    with pytest.raises(ValueError, match=message):
        made(kind).act(np.full((2, OBSERVATION), 2.0), labels=said)


@pytest.mark.parametrize(
    ("make_labels", "message"),
    [
        (lambda: [Ahead("x", OBSERVATION, 1)], r"observed of label 'x' must be in \[0, 3\], got 4"),
        (lambda: [Ahead("x", -1, 1)], "observed of label 'x'"),
        (lambda: [Ahead("x", 0.5, 1)], "observed of label 'x'"),
        (lambda: [Ahead("x", 0, 0)], "steps of label 'x'"),
        (lambda: [Ahead("x", 0, 2.0)], "steps of label 'x'"),
        (lambda: [Ahead("", 0, 1)], "non-empty"),
        (lambda: [Ahead("x", 0, 1), Ahead("x", 1, 1)], "different names"),
        (lambda: [Ahead("x", 0, 1), Label("x", ("a", "b"))], "different names"),
        (lambda: ["x"], "must be of type Label or Ahead"),
    ],
)
def test_labels_that_cannot_be(make_labels, message):
    with pytest.raises(ValueError, match=message):
        Spaces.of(*SPACES[:2], labels=make_labels())


def test_bc_reads_a_number_and_has_to_be_told_it():
    policy = made("bc", labels=(LABELS[0], AHEAD[0]))
    assert policy.num_inputs == OBSERVATION + 3 + 1
    seen = np.full((2, OBSERVATION), 2.0)
    one, other = policy.act(seen, labels={"task": "kettle", "x": [2.3, 1.8]})
    assert (one != other).any()
    with pytest.raises(ValueError, match="has to be told its labels"):
        policy.act(seen, labels={"task": "kettle"})
    half = policy.act(seen, labels={"task": "kettle", "x": [2.3, None]})
    assert np.isfinite(half[0]).all()
    assert np.isnan(half[1]).all()


# ---- what a policy without numbers is ----


@pytest.mark.parametrize("labels", [(), LABELS], ids=["none", "categories"])
def test_numbers_leave_other_policies_as_they_are(labels):
    """Neither tensors nor random numbers of policies without labels of real values depend on them."""
    policy = make_policy("mac", SPACES._replace(labels=labels), SMALL["mac"])
    assert not [name for name in policy.state_dict() if name.startswith(("widened_labels", "of_numbers"))]
    draws = policy.draw(16, torch.Generator().manual_seed(0)).own.asked
    assert draws.weights.shape[-1] == ACTION + len(labels)
    state = policy.step(np.full((2, OBSERVATION), 2.0))[1]
    assert state.assumed is None or state.assumed.dtype == np.int64


def test_a_policy_with_numbers_comes_back_from_a_folder(tmp_path):
    policy = made()
    policy.widened_labels.log_wide.fill_(0.3)
    again = load_policy(save_policy(policy, tmp_path / "copy"))
    seen = np.full((2, OBSERVATION), 2.2)
    for name, found in policy.belief(seen, labels={"y": 2.05}).items():
        np.testing.assert_array_equal(again.belief(seen, labels={"y": 2.05})[name], found)
    moved = policy.to("meta")
    for model in moved._models:
        assert {buffer.device.type for buffer in model.buffers()} == {"meta"}


def test_a_label_of_many_classes_leaves_the_quick_path_as_it_is():
    """A category may ask for more parameters than a mixture has."""
    policy = made(labels=(Label("task", tuple("abcdefghijklmnop")),), components=2)
    seen = np.full((2, OBSERVATION), 2.2)
    together = policy.act(seen, [[0.1, 0, 0.2]] * 2, [True, False, True], deterministic=True)
    alone = policy.act(seen[0], [0.1, 0, 0.2], [True, False, True], deterministic=True)
    np.testing.assert_allclose(together[0], alone, atol=5e-4)


# ---- a point in the plane that goes to places ----

FAR, LENGTH = 1.0, 24
PLANE = Spaces.of(
    spaces.Box(-np.inf, np.inf, (2,), np.float32),
    spaces.Box(np.float32([-1, -1]), np.float32([1, 1])),
    labels=[Ahead("x", 0, LENGTH), Ahead("y", 1, LENGTH)],
)
STEP = 0.1


def walk(start, place, random):
    """A point that moves towards its place, a tenth of a unit at most, and stays there."""
    observations, actions = [start], []
    for _ in range(LENGTH):
        way = (place - observations[-1]) / STEP
        actions.append((way / max(1.0, np.linalg.norm(way)) + random.normal(0, 0.05, 2)).clip(-1, 1))
        observations.append(observations[-1] + STEP * actions[-1])
    zeros, no = np.zeros(LENGTH, np.float32), np.zeros(LENGTH, bool)
    return Episode(np.array(observations, np.float32), np.array(actions, np.float32), zeros, no, no)


def walks(episodes, seed):
    random = np.random.default_rng(seed)
    made_up = [walk(random.uniform(-0.2, 0.2, 2), random.uniform(-FAR, FAR, 2), random) for _ in range(episodes)]
    return Demonstrations.of(made_up, name="plane", kind="scripted")


SETTINGS = {
    "width": 32, "depth": 2, "query_width": 32, "query_depth": 2, "components": 4, "evidence_noise": 0.1,
    "masks_per_row": 2,
}  # fmt: skip
TRAINING = TrainSettings(steps=300, batch_size=128, validation=0.2, validations=1, learning_rate=5e-3, ema=0.98)


def ended(policy, places):
    """Where points end that are told these places (B, 2), or nothing."""
    position, state = np.zeros((len(places), 2), np.float32), None
    for _ in range(LENGTH):
        told = {"x": places[:, 0], "y": places[:, 1]}
        action, state = policy.step(position, state, labels=told, deterministic=True)
        position = (position + STEP * action).astype(np.float32)
    return position


def test_a_point_goes_where_it_is_told(tmp_path):
    """Told a place a point ends nearer to it than told nothing, by an interval over three training seeds."""
    places = np.array([[0.7, 0.7], [0.7, -0.7], [-0.7, 0.7], [-0.7, -0.7], [0.0, 0.8]])
    gains = []
    for seed in range(3):
        policy = make_policy("mac", PLANE, SETTINGS, seed)
        train(policy, walks(60, seed), TRAINING, tmp_path / f"s{seed}", seed=seed, quiet=True)
        policy = load_policy(tmp_path / f"s{seed}")
        told, nothing = ended(policy, places), ended(policy, np.full_like(places, np.nan))
        gap = np.linalg.norm(nothing - places, axis=1) - np.linalg.norm(told - places, axis=1)
        gains.append(gap)
        distances = np.linalg.norm(told[:, None] - places, axis=-1)
        assert (distances.argmin(1) == np.arange(len(places))).all()  # nearer to its place than to another's
    found = mean_over_seeds(gains)
    assert found.ci95[0] > 0.2


def test_a_short_training_finds_the_closed_form(tmp_path):
    """o ~ N(0, 1), the next o, the place, = .8 o + .6 noise, and a = .3 place + .1 noise beside a dim of noise:
    p(place | o), p(place | o, a) and p(a | o, place)."""
    random, episodes = np.random.default_rng(0), []
    zeros, no = np.zeros(100, np.float32), np.zeros(100, bool)
    for _ in range(100):
        chain = [random.normal()]
        for noise in random.normal(size=100):
            chain.append(0.8 * chain[-1] + 0.6 * noise)
        acted = 0.1 * random.normal(size=(100, 2))
        acted[:, 0] += 0.3 * np.array(chain[1:])
        observations, actions = np.float32(chain)[:, None], acted.clip(-1, 1).astype(np.float32)
        episodes.append(Episode(observations, actions, zeros, no, no))
    demos = Demonstrations.of(episodes, name="line", kind="scripted")
    line = Spaces.of(
        spaces.Box(-np.inf, np.inf, (1,), np.float32),
        spaces.Box(np.float32([-1, -1]), np.float32([1, 1])),
        labels=[Ahead("place", 0, 1)],
    )
    settings = SETTINGS | {"evidence_noise": 0.0, "components": 2, "min_log_std": None}
    policy = make_policy("mac", line, settings, 0)
    train(policy, demos, dataclasses.replace(TRAINING, steps=600, batch_size=256), tmp_path / "run", quiet=True)
    policy = load_policy(tmp_path / "run")
    seen = np.array([[-0.8], [0.0], [0.9]])
    np.testing.assert_allclose(policy.belief(seen)["place"], np.column_stack([0.8 * seen, np.full(3, 0.6)]), atol=0.12)
    action = np.array([[0.2, 0.0], [-0.1, 0.1], [0.1, -0.1]])
    precision = 0.6**-2 + 0.3**2 / 0.1**2
    mean = (0.8 * seen[:, 0] / 0.6**2 + 0.3 * action[:, 0] / 0.1**2) / precision
    for mask in ([True, False], [True, True]):
        found = policy.belief(seen, action, mask)["place"]
        np.testing.assert_allclose(found, np.column_stack([mean, np.full(3, precision**-0.5)]), atol=0.12)
    place = np.array([-0.5, 0.4, 0.8])
    action[:, 0] = 0.3 * place + [0.1, -0.1, 0.0]
    log_prob = policy.log_prob(seen, action, query=[True, False], labels={"place": place})
    exact = -0.5 * np.array([1.0, 1.0, 0.0]) - np.log(0.1 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(log_prob, exact, atol=0.3)
    done = policy.act(seen, labels={"place": place}, deterministic=True)[:, 0]
    np.testing.assert_allclose(done, 0.3 * place, atol=0.05)
