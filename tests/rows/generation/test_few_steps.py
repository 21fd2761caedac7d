"""Samples in few steps: drawn once, measured against test images."""

import dataclasses

import numpy as np
import pytest
import torch

from mac_policy.core.networks import SetNetwork
from mac_policy.rows import checkpoint
from mac_policy.rows.generation.features import FeatureNetwork, feature_distance
from mac_policy.rows.generation.few_steps import FewSteps, distances, draw, drawn_once, possible_steps, two_sets
from mac_policy.rows.generation.infill import check_patterns, completion_rows, completions, write_rows
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import ModelSpec, build
from tests.rows.helpers import MLP

SPEC = ModelSpec("sfarm", (1, 8, 8), 2, MLP, {"kind": "bernoulli"})


@pytest.fixture
def arm(tmp_path):
    model = build(SPEC).eval()
    checkpoint.save(model, SPEC, tmp_path / "sfarm-s0", {}, {}, {})
    return model, tmp_path / "sfarm-s0"


def stripes(test=80):
    rows = (np.arange(64) % 2)[None] ^ (np.random.default_rng(0).random((test, 64)) < 0.1)
    return RowSet("stripes", rows, rows, rows.astype(np.uint8), (1, 8, 8), 2, "memory", "0" * 64)


def test_samples_are_kept_and_drawn_anew_when_the_question_changes(arm):
    model, folder = arm
    first, seconds = drawn_once(model, folder, folder / "few", 6, 4, temperature=1.0, seed=0)
    assert torch.equal(first, draw(model, 6, 4, temperature=1.0, seed=0))
    assert first.shape == (6, 64)
    assert seconds > 0
    model.forward = model.sample = None  # nothing can be drawn any more
    again, seconds_again = drawn_once(model, folder, folder / "few", 6, 4, temperature=1.0, seed=0)
    assert torch.equal(again, first)
    assert seconds_again == seconds  # of drawing, not of reading
    with pytest.raises(TypeError):
        drawn_once(model, folder, folder / "few", 6, 4, temperature=0.5, seed=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 4}, "steps must be a list .* got 4"),
        ({"steps": ()}, r"steps=\[\] names no number"),
        ({"steps": (4, "x")}, r"steps\[1\] must be a whole number of at least 1, got 'x'"),
        ({"steps": (0,)}, r"steps\[0\] must be .* got 0"),
        ({"shown": "x"}, "shown must be .* at least 1, got 'x'"),
        ({"shown": 0}, "shown must be .* got 0"),
        ({"shown": -1}, "shown must be .* got -1"),
        ({"samples": 0}, "samples must be .* at least 2, got 0"),
        ({"feature_steps": 0}, "^feature_steps must be .* got 0"),
        ({"feature_steps": "x"}, "^feature_steps must be .* got 'x'"),
        ({"seed": -1}, "seed must be"),
        ({"temperature": 0}, "temperature must be"),
    ],
)
def test_wrong_options_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        FewSteps(**({"steps": (2, 8), "samples": 4, "feature_steps": 3} | wrong))


@pytest.mark.parametrize(
    ("arm", "most"), [("mac", 12), ("sfarm", 4), ("ddpm", 20)], ids=["variables", "pixels", "noise"]
)
def test_steps_are_as_many_as_an_image_can_take(arm, most):
    network = {"kind": "ddpm", "network": MLP, "num_steps": 20} if arm == "ddpm" else MLP
    model = build(ModelSpec(arm, (3, 2, 2), 2, network, {"kind": "bernoulli"})).eval()
    assert possible_steps(model, [2, 400, 3, 300, 2]) == [2, 3, most]
    passes = []
    next(part for part in model.modules() if isinstance(part, SetNetwork)).register_forward_hook(
        lambda *_: passes.append(1)
    )
    for steps in possible_steps(model, [3, 400]):
        passes.clear()
        draw(model, 2, steps, temperature=1.0, seed=0)
        assert len(passes) == steps


@pytest.mark.parametrize("arm", ["vae", "miwae"])
def test_what_draws_an_image_at_once_has_no_fewer_steps(arm):
    model = build(ModelSpec(arm, (1, 2, 2), 2, {"kind": arm, "network": MLP}, {"kind": "bernoulli"}))
    with pytest.raises(ValueError, match=f"a {arm.upper()} draws an image in one step and takes no number of steps"):
        possible_steps(model, [2, 8])


def test_noise_is_farther_from_the_test_images_than_they_are_from_each_other():
    rows = stripes()
    torch.manual_seed(0)
    network = FeatureNetwork(rows.shape, 2)
    noise = torch.randint(0, 2, (40, 64), dtype=torch.uint8)
    alike = torch.from_numpy(rows.test[20:60].copy())
    found = distances(network, {2: noise, 8: alike}, rows)
    assert found["steps"]["2"] > 3 * found["between_test_images"]
    assert found["steps"]["8"] < 3 * found["between_test_images"]
    with pytest.raises(ValueError, match="samples=41 need 82 test images, there are 80: choose at most 40 samples"):
        distances(network, {2: torch.zeros(41, 64)}, rows)


def test_test_images_are_compared_with_others_from_all_over_the_file():
    """Of a file whose end is unlike its beginning, as MNIST's is."""
    bright = np.random.default_rng(1).random((100, 64)) < 0.9
    rows = dataclasses.replace(stripes(), test=np.concatenate([stripes(100).test, bright.astype(np.uint8)]))
    torch.manual_seed(0)
    network = FeatureNetwork(rows.shape, 2)
    ends = feature_distance(network, *[torch.from_numpy(rows.test[part]) for part in (slice(0, 60), slice(-60, None))])
    found = distances(network, {2: torch.zeros(60, 64)}, rows)
    assert found["between_test_images"] < 0.1 * ends
    real, others = two_sets(stripes(80), 40)
    assert sorted(map(bytes, torch.cat([real, others]).numpy())) == sorted(map(bytes, stripes(80).test))


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("interior", r"^masks must be a list .* write masks=\[interior\]"),
        (5, r"^masks must be a list .* got 5"),
        ([5], "^masks: '5': unknown pattern"),
        (["left", "lefft"], "^masks: 'lefft': unknown pattern .* did you mean 'left'"),
        (["random"], "^masks: 'random': .* leave out a share, written as random-0.5"),
        (["random-x"], "^masks: 'random-x': .* is no number"),
        (["random-1.5"], r"^masks: 'random-1.5': ratio must be the share that is left out, a number in \[0, 1\]"),
    ],
)
def test_wrong_patterns_are_named_with_their_option(patterns, message):
    with pytest.raises(ValueError, match=message):
        check_patterns("masks", patterns, (1, 8, 8))
    assert check_patterns("masks", None, (1, 8, 8)) == []


def test_completions_keep_what_is_shown_and_arms_see_the_same_holes(arm, tmp_path):
    model, _ = arm
    x = torch.from_numpy(stripes().test[:2])
    patterns = ["random-0.3", "left"]
    given, fills = completions({"a": model, "b": model}, x, patterns, (1, 8, 8), steps=4)
    assert given.shape == (2, 2, 64)
    assert torch.equal(fills["a"], fills["b"])
    kept = torch.where(given, fills["a"], x)
    assert torch.equal(kept, x.expand(2, 2, 64))
    rows = completion_rows(x, given, fills, 2)
    assert [len(row) for row in rows.values()] == [4] * 4
    left = rows["shown"][1].view(8, 8)  # the first image's second pattern
    assert bool(((left[:, :4] > 0.4) & (left[:, :4] < 0.6)).all())
    path = write_rows(tmp_path / "grid.png", rows, (1, 8, 8), 2, columns=patterns)
    assert path.stat().st_size > 2000
