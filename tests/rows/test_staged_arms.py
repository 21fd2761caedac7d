"""SFARM's arms: what they train on, the modes they are asked in, and likelihoods from several trajectories."""

import itertools
import math

import numpy as np
import pytest
import torch

from mac_policy.core import StagedModes
from mac_policy.core.staged import image_regions
from mac_policy.rows.likelihoods import evaluate as outcome
from mac_policy.rows.likelihoods.queries import EvaluationSettings, missing
from mac_policy.rows.likelihoods.report import results_tables
from mac_policy.rows.methods import METHODS
from mac_policy.rows.patterns import MODES, REGIONS, given_by_pattern, split_pattern
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import ModelSpec, build, staged_modes
from tests.rows.helpers import MLP, compare, far_from_uniform, numbers, one_process, same

IMAGE = (1, 4, 4)


def image_model(arm="sfarm", shape=IMAGE, head="bernoulli", levels=2, **settings):
    spec = ModelSpec(arm, shape, levels, MLP, {"kind": head, **settings})
    return far_from_uniform(build(spec)).eval()


def table_model(regions=None):
    head = {"kind": "gaussian"}
    return far_from_uniform(build(ModelSpec("sfarm", (3,), None, MLP, head, regions=regions or {}))).eval()


def test_images_have_seven_modes_and_tables_those_of_their_regions():
    assert len(image_model().modes) == 7
    assert image_model("sfarm-uniform").modes == ("random",)
    assert table_model().modes == ("random",)
    assert table_model({"target-last": [0, 1]}).modes == ("random", "target-last")
    with pytest.raises(ValueError, match="regions are for tables"):
        ModelSpec("sfarm", IMAGE, 2, MLP, {"kind": "bernoulli"}, regions={"a": [0]})


def test_both_arms_start_from_the_same_weights():
    specs = [ModelSpec(arm, IMAGE, 2, MLP, {"kind": "bernoulli"}) for arm in ("sfarm", "sfarm-uniform")]
    first, second = (build(spec, seed=3) for spec in specs)
    assert same(first, second)


def test_the_channels_of_a_pixel_are_activated_together():
    model = build(ModelSpec("sfarm", (3, 4, 4), 4, MLP, {"kind": "pixels", "num_components": 2}))
    masks = model.draw(50, torch.Generator().manual_seed(0))
    evidence = masks.evidence.view(50, 3, 16)
    assert bool((evidence == evidence[:, :1]).all())
    assert set(masks.mode.tolist()) == set(range(7))
    assert model.model.head.channels == 3
    other = build(ModelSpec("ardm", (3, 4, 4), 4, MLP, {"kind": "pixels", "num_components": 2}))
    assert other.model.head.channels == 1  # its paths take one variable at a time


@pytest.mark.parametrize("pattern", MODES)
def test_the_mode_of_a_pattern_fills_last_what_the_pattern_leaves_out(pattern):
    given = given_by_pattern(pattern, 0.5, 1, IMAGE)[0]
    assert torch.equal(~given, image_regions(4, 4)[REGIONS[pattern]])
    modes = staged_modes(ModelSpec("sfarm", IMAGE, 2, MLP, {"kind": "bernoulli"})).at(MODES[pattern])
    everything = torch.ones(20, 16, dtype=torch.bool)
    ranks = modes.ranks(query=everything, given=~everything, generator=torch.Generator().manual_seed(0))
    assert bool((ranks[:, given] < int(given.sum())).all())
    trained = modes.training_masks(4000, torch.Generator().manual_seed(0))
    in_mode = trained.evidence[trained.mode == modes.path_mode(1)]
    assert bool((in_mode == given).all(1).any())  # this evidence is one it was trained on


def test_what_is_missing_is_asked_in_the_mode_that_fills_it_last_and_at_random(tmp_path):
    model = image_model()
    asked = missing(12, IMAGE, "left")
    found = outcome.in_modes(model, asked)
    assert [m.factorization.path_mode(1).item() for m in found.values()] == [2, 0]  # right-left, random
    x = torch.randint(0, 2, (12, 16), generator=torch.Generator().manual_seed(0))
    in_mode = model.model.log_prob(
        x, query=asked.query, given=asked.given, factorization=StagedModes((4, 4)).at("right-left"),
        generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    told = found[("",)].log_prob(x, query=asked.query, given=asked.given, generator=torch.Generator().manual_seed(1))[
        "model"
    ]
    torch.testing.assert_close(told, in_mode)
    other = found[(outcome.AT_RANDOM,)].log_prob(
        x, query=asked.query, given=asked.given, generator=torch.Generator().manual_seed(1)
    )
    assert not torch.allclose(other["model"], told)  # the network is told another mode
    assert list(outcome.in_modes(image_model("sfarm-uniform"), asked)) == [("", outcome.AT_RANDOM)]
    assert list(outcome.in_modes(image_model("ardm"), asked)) == [("",)]


def test_many_trajectories_average_the_probabilities_of_all_orders():
    """Eq. 14 against the sum over the six orders of three variables, in the uniform mode."""
    model = table_model({"target-last": [0, 1]})
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double()
    query = torch.ones(4, 3, dtype=torch.bool)
    paths = []
    for order in itertools.permutations(range(3)):
        total = torch.zeros(4, dtype=torch.float64)
        for step, variable in enumerate(order):
            evidence = torch.zeros(4, 3, dtype=torch.bool)
            evidence[:, list(order[:step])] = True
            conditional = model.model.conditionals(x, evidence=evidence, mode=torch.zeros(4, dtype=torch.long))
            total = total + conditional.log_prob(x)[:, variable]
        paths.append(total)
    expected = torch.stack(paths).exp().mean(0)
    found = model.log_prob(x, query=query, given=~query, orders=3000, generator=torch.Generator().manual_seed(0))[
        "model"
    ].exp()
    spread = torch.stack(paths).exp().std(0) / 3000**0.5
    assert bool(((found - expected).abs() < 4 * spread + 1e-12).all())


def test_fills_leave_what_is_seen_and_differ_from_one_another():
    model = table_model()
    x = torch.randn(5, 3, dtype=torch.float64)
    seen = torch.tensor([True, False, True])
    found = model.impute(x, given=seen.expand(5, 3), num_samples=4, generator=torch.Generator().manual_seed(0))
    assert found.shape == (5, 4, 3)
    assert torch.equal(found[:, :, seen], x[:, None, seen].expand(5, 4, 2))
    assert len(found[0, :, 1].unique()) == 4


def test_fewer_steps_fill_several_pixels_at_once():
    model, passes = image_model(), []
    model.model.network.register_forward_hook(lambda *_: passes.append(1))
    nothing = torch.zeros(2, 16, dtype=torch.long)
    model.sample(nothing, given=nothing > 0, steps=3, generator=torch.Generator().manual_seed(0))
    assert len(passes) == 3


def test_missing_values_are_neither_shown_nor_asked():
    model = table_model()
    draws = model.draw(6, torch.Generator().manual_seed(0))
    x, missing_ones = torch.randn(6, 3).double(), torch.tensor([False, True, False]).expand(6, 3)
    changed = x.masked_fill(missing_ones, 1e6)
    assert torch.equal(model(x, draws, missing=missing_ones), model(changed, draws, missing=missing_ones))
    assert not torch.equal(model(x, draws), model(changed, draws))


def test_a_comparison_of_staged_arms_runs_and_pairs_them(tmp_path):
    record = compare(
        tmp_path, ("sfarm-uniform", "sfarm"), seeds=(0,), rows=numbers(), head={"kind": "gaussian"},
        evaluation={"missing": ("random-0.5",), "queries": ("joint",), "orders": 2},
    ).run(one_process(), quiet=True)  # fmt: skip
    assert set(record["arms"]["sfarm"]["metrics"]) == {"joint", "missing-random-0.5"}
    assert set(record["paired"]["sfarm - sfarm-uniform"]) == {"joint", "missing-random-0.5"}


def test_arms_with_modes_are_paired_in_both_ways_of_asking(tmp_path):
    rng = np.random.default_rng(0)
    train, valid, test = (rng.integers(0, 2, (count, 16), np.uint8) for count in (30, 4, 6))
    digits = RowSet("digits", train, valid, test, IMAGE, 2, "memory", "0" * 64)
    record = compare(
        tmp_path, ("sfarm-uniform", "sfarm", "ardm"), seeds=(0,), rows=digits, head={"kind": "bernoulli"},
        evaluation={"missing": ("left", "random-0.5"), "queries": ("joint",)},
    ).run(one_process(), quiet=True)  # fmt: skip
    metrics = {arm: found["metrics"] for arm, found in record["arms"].items()}
    names = {"joint", "joint_nats", "missing-left", "missing-random-0.5"}
    assert set(metrics["ardm"]) == names
    assert set(metrics["sfarm"]) == set(metrics["sfarm-uniform"]) == names | {"missing-left_at-random"}
    uniform = metrics["sfarm-uniform"]
    assert uniform["missing-left"] == uniform["missing-left_at-random"]
    assert uniform["joint_nats"]["mean"] == pytest.approx(uniform["joint"]["mean"] * 16 * math.log(2))
    assert set(record["paired"]["sfarm - sfarm-uniform"]) == names | {"missing-left_at-random"}
    assert [len(table.rows) for table in results_tables(record)] == [3, 2]


def test_every_arm_has_a_factorisation_modes_or_is_a_baseline():
    for name, arm in METHODS.items():
        assert (arm.factorization is not None) + (arm.modes is not None) + arm.is_baseline == 1, name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: split_pattern("lefft"), "unknown pattern of what is missing 'lefft'.*did you mean 'left'"),
        (lambda: split_pattern("random"), "leave out a share, written as random-0.5"),
        (lambda: split_pattern("left-0.3"), "other patterns have none"),
        (lambda: split_pattern("random-half"), "the share 'half' is no number"),
        (lambda: missing(2, IMAGE, "random-1.5"), r"a number in \[0, 1\], got 1.5"),
        (lambda: missing(2, (5,), "left"), "pattern 'left' is for images"),
        (lambda: EvaluationSettings(orders=2, steps=3), "orders=2 averages probabilities of whole paths"),
        (lambda: EvaluationSettings(queries=("joints",)), "unknown query 'joints'"),
        (lambda: table_model().in_mode("left"), "unknown mode 'left'"),
        (lambda: image_model("ardm").in_mode("left-right"), "not trained in modes"),
    ],
)  # fmt: skip
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
