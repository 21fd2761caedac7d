"""Arms: what each trains on, and what all of them share."""

import pytest
import torch

from mac_policy.core import MaskTuned, UniformCardinality, UniformOrder
from mac_policy.core.orders import strided
from mac_policy.rows.methods import FIGURE_3, METHODS, check_methods
from mac_policy.rows.spec import ModelSpec, build, make_order
from tests.rows.helpers import CATEGORICAL, MLP, N, same, spec

ORDER = strided(N, 2)
SETTINGS = {
    "rnd-b": {"protocol": "random", "cardinality_reweighting": False},
    "rnd-b-cr": {"protocol": "random"},
    "ablate-a": {"path_weighting": "last", "cardinality_reweighting": False},
    "mac-nocr": {"cardinality_reweighting": False},
    "mac": {},
    "mac-edge": {"cardinality_reweighting": False, "weights": "edge"},
    "mac-both": {"query": "both"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_tuned_arm_trains_on_the_masks_its_settings_say(name):
    arm = METHODS[name].factorization(N, ORDER)
    expected = MaskTuned(UniformCardinality(N), ORDER, **SETTINGS[name])
    first, second = (f.training_masks(500, torch.Generator().manual_seed(3)) for f in (arm, expected))
    assert torch.equal(first.evidence, second.evidence)
    assert torch.equal(first.weights, second.weights)
    assert arm.deterministic == expected.deterministic


def test_every_arm_of_the_figure_trains_on_masks_of_its_own():
    draws = [
        METHODS[name].factorization(N, ORDER).training_masks(400, torch.Generator().manual_seed(0)) for name in FIGURE_3
    ]
    kinds = {(tuple(d.evidence.flatten().tolist()), tuple(d.weights.flatten().tolist())) for d in draws}
    assert len(kinds) == len(FIGURE_3)
    assert isinstance(METHODS["ardm"].factorization(N, ORDER), UniformOrder)


def test_arms_start_from_the_same_weights_for_a_seed_and_leave_the_global_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    set_arms = list(FIGURE_3)
    models = [build(spec(arm), seed=1) for arm in set_arms]
    assert torch.equal(torch.rand(2), expected)
    assert all(same(models[0], model) for model in models)
    assert not same(models[0], build(spec("mac"), seed=2))


def test_names_of_arms_are_checked():
    assert check_methods(["mac", "ardm"]) == ("mac", "ardm")
    with pytest.raises(ValueError, match=r"unknown arm 'mack'; allowed are .* did you mean 'mac'"):
        check_methods(["ardm", "mack"])
    with pytest.raises(ValueError, match=r"one or more different names, got \['mac', 'mac'\]"):
        check_methods(["mac", "mac"])
    with pytest.raises(ValueError, match="one or more different names"):
        check_methods([])


@pytest.mark.parametrize(
    ("shape", "order", "expected"),
    [
        ((5,), {"kind": "lexicographic"}, [0, 1, 2, 3, 4]),
        ((5,), {"kind": "strided", "stride": 2}, [0, 2, 4, 1, 3]),
        ((2, 1, 3), {"kind": "pixels"}, [0, 3, 1, 4, 2, 5]),
        ((1, 2, 2), {"kind": "pixels"}, [0, 1, 2, 3]),
    ],
)
def test_canonical_orders(shape, order, expected):
    assert make_order(shape, **order).tolist() == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": {"kind": "mlpp"}}, "unknown network 'mlpp'.*did you mean 'mlp'"),
        ({"network": {"kind": "mlp", "widht": 3}}, "unknown setting of the network 'widht'.*'width'"),
        ({"network": {"kind": "mlp", "num_variables": 3}}, "unknown setting of the network 'num_variables'"),
        ({"method": "mac-path"}, "the method mac-path needs a path network, mlp is not one"),
        ({"head": {"kind": "gauss"}}, "unknown head 'gauss'"),
        ({"head": {"kind": "gaussian"}}, r"the head 'gaussian' is not for values 0..2"),
        ({"head": {"kind": "categorical"}, "levels": None}, "num_classes must be|not for real numbers"),
        ({"order": {"kind": "spiral"}}, "unknown order 'spiral'"),
        ({"order": {"kind": "strided"}}, "stride must be a whole number of at least 1, got None"),
        ({"method": "x"}, "unknown method 'x'"),
    ],
)
def test_a_wrong_spec_is_refused_by_name(change, message):
    values = {"method": "mac", "shape": (N,), "levels": 3, "network": MLP, "head": CATEGORICAL}
    with pytest.raises(ValueError, match=message):
        build(ModelSpec(**(values | change)))


def test_a_path_network_trains_on_random_orders_as_on_canonical_ones():
    random, both = METHODS["ardm-path"], METHODS["mac-path-both"]
    assert (random.network, random.sizes) == (both.network, both.sizes)
    assert isinstance(random.factorization(N, ORDER), UniformOrder)
    sizes = {"kind": "path_transformer", "width": 8, "depth": 1, "heads": 1}
    one, other = (build(ModelSpec(arm, (N,), 3, sizes, CATEGORICAL), seed=1) for arm in ("ardm-path", "mac-path-both"))
    assert same(one, other)
    ranks = one.draw(400, torch.Generator().manual_seed(0)).ranks
    assert len({tuple(row) for row in ranks[(ranks >= 0).all(1)].tolist()}) > 100
