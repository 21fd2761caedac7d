"""What AnyOrderModel refuses, and how it says so."""

import math

import pytest
import torch

from mac_policy.core import AnyOrderModel, TrainingMasks, UniformOrder
from mac_policy.core.heads import Categorical, Gaussian, Mixed
from mac_policy.core.networks import MLP
from tests.core.models import CONTEXT, STAGED, N, make_model, mask

MODEL = make_model(UniformOrder(N), context_dim=0)
X = torch.zeros(2, N).double()
NAN = torch.full((2, N), torch.nan).double()
ANY = {"factorization": UniformOrder(N)}
WITH_CONTEXT = make_model(UniformOrder(N))
HALF = torch.tensor([[True] * 3 + [False] * 3] * 2)
UNSEEN = (~HALF).double()


def context(rows=2, fill=0.0):
    return torch.full((rows, CONTEXT), fill, dtype=torch.float64)


def loss(evidence=HALF, weights=UNSEEN):
    return MODEL.loss(X, TrainingMasks(evidence, weights))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: MODEL.log_prob(X, query=mask("110000"), given=mask("010000"), **ANY),
            "variable 1 of row 0 is in both",
        ),
        (
            lambda: MODEL.log_prob(X, query=mask("11000"), **ANY),
            r"query must have shape \(2, 6\) or \(6,\), got \(5,\)",
        ),
        (lambda: MODEL.log_prob(X, query=torch.ones(N), **ANY), "query must be a tensor of dtype torch.bool.*float32"),
        (lambda: MODEL.log_prob(X, query=[True] * N, **ANY), "got list"),
        (lambda: MODEL.log_prob(NAN, query=mask("110000"), **ANY), "nan"),
        (lambda: MODEL.log_prob(X + 0.5, query=mask("110000"), **ANY), "0.5"),
        (lambda: MODEL.log_prob(X[:, :5], query=mask("110000"), **ANY), r"x must have shape \(rows, 6\), got \(2, 5\)"),
        (lambda: MODEL.log_prob(X, query=mask("110000"), orders=0, **ANY), "orders must be .* at least 1, got 0"),
        (lambda: MODEL.log_prob(X, query=mask("110000"), factorization=UniformOrder(5)), "over 5 variables.*over 6"),
        (lambda: MODEL.log_prob(X, query=mask("110000"), missing=mask("100000"), **ANY), "missing and query"),
        (
            lambda: MODEL.log_prob(X, query=mask("010000"), given=mask("100000"), missing=mask("100000"), **ANY),
            "missing and given",
        ),
        (
            lambda: MODEL.sample(X, given=mask("110000"), temperature=0.0, **ANY),
            "temperature must be .* above 0, got 0.0",
        ),
        (lambda: MODEL.sample(X, given=mask("110000"), temperature=math.inf, **ANY), "temperature"),
        (lambda: MODEL.sample(X, given=mask("110000"), steps=0, **ANY), "steps must be .* at least 1, got 0"),
        (lambda: MODEL.sample(X, given=mask("110000"), num_samples=0, **ANY), "num_samples"),
        (lambda: MODEL.sample(NAN, given=mask("110000"), **ANY), "nan"),
        (lambda: MODEL.conditionals(NAN, evidence=mask("100000")), "nan"),
        (lambda: MODEL.conditionals(X, evidence=mask("100000"), mode=torch.tensor([0, 0])), "mode"),
        (lambda: MODEL.conditionals(X, evidence=mask("100000"), context=torch.zeros(2, 3)), "context"),
        (lambda: MODEL.loss(NAN, UniformOrder(N).training_masks(2)), "nan"),
        (
            lambda: make_model(STAGED).conditionals(
                X, evidence=mask("000000"), context=torch.zeros(2, 2).double(), mode=torch.tensor([9, 0])
            ),
            r"mode\[0\] is 9",
        ),
        (lambda: MODEL.conditionals([[0.0] * N], evidence=mask("100000")), "x must be a tensor .*, got list"),
        (lambda: MODEL.loss([[0.0] * N], UniformOrder(N).training_masks(1)), "x must be a tensor .*, got list"),
        (lambda: MODEL.log_prob([[0.0] * N], query=mask("100000"), **ANY), "x must be a tensor .*, got list"),
        (lambda: MODEL.sample([[0.0] * N], given=mask("100000"), **ANY), "x must be a tensor .*, got list"),
        (lambda: MODEL.sample(X, given=mask("110000"), temperature="1", **ANY), "temperature must be .*, got '1'"),
        (lambda: loss(weights=UNSEEN[:1]), r"weights must be .* 2 of x, got \(1, 6\)"),
        (lambda: loss(weights=UNSEEN[:, :5]), r"weights must have the shape of x, \(2, 6\), got \(2, 5\)"),
        (lambda: loss(weights=[0.0]), "weights must be a tensor .* got list"),
        (lambda: loss(evidence=HALF.repeat(2, 1)), r"evidence must have shape \(2, 6\) or \(6,\), got \(4, 6\)"),
        (lambda: loss(weights=-UNSEEN), r"weights\[0, 3\] is -1.0: .* at least 0"),
        (lambda: loss(weights=torch.where(HALF, 0.0, torch.nan)), r"weights\[0, 3\] is nan"),
        (lambda: loss(weights=torch.where(HALF, 0.0, torch.inf)), r"weights\[0, 3\] is inf"),
        (lambda: loss(weights=torch.ones(2, N)), r"weights\[0, 0\] is 1.0: .* 0 where there is evidence"),
        (
            lambda: WITH_CONTEXT.conditionals(X, evidence=mask("100000"), context=[[0.0] * CONTEXT] * 2),
            "context is of type list",
        ),
        (
            lambda: WITH_CONTEXT.conditionals(X, evidence=mask("100000"), context=context().long()),
            "context is of type torch.int64",
        ),
        (lambda: AnyOrderModel(MODEL.network, MODEL.head, rows_per_pass=0), "rows_per_pass"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


CALLS = {
    "conditionals": lambda model, c: model.conditionals(X, evidence=mask("100000"), context=c),
    "loss": lambda model, c: model.loss(X, TrainingMasks(HALF, UNSEEN), c),
    "log_prob": lambda model, c: model.log_prob(X, query=mask("110000"), context=c, **ANY),
    "sample": lambda model, c: model.sample(X, given=mask("110000"), context=c, **ANY),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_context_of_other_rows_or_of_no_numbers_is_refused(name):
    call = CALLS[name]
    for rows in (1, 9):
        with pytest.raises(ValueError, match=rf"context must be .* 2 of x, got \({rows}, {CONTEXT}\)"):
            call(WITH_CONTEXT, context(rows))
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"context\[0, 0\] is {bad}"):
            call(WITH_CONTEXT, context(fill=bad))


def test_without_validation_only_shapes_are_checked():
    model = AnyOrderModel(WITH_CONTEXT.network, WITH_CONTEXT.head, validate=False)
    for call in CALLS.values():
        call(model, context(fill=math.nan))
        with pytest.raises(ValueError, match="context must be"):
            call(model, context(1))
    assert model.loss(X, TrainingMasks(HALF, torch.full((2, N), torch.nan)), context()).isnan()
    with pytest.raises(ValueError, match="weights"):
        model.loss(X, TrainingMasks(HALF, torch.ones(1, N)), context())


def network(num_variables=2, num_features=1, num_params=2):
    return MLP(num_variables=num_variables, num_features=num_features, num_params=num_params, width=4, depth=1)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda: (network(), [Gaussian(), Gaussian()]), r"one Head.*got list; .*Mixed\(\[head, ...\], which"),
        (lambda: (network(), Gaussian), "one Head for all variables, got ABCMeta"),
        (lambda: (network(num_params=3), Gaussian()), "num_params=3, Gaussian needs num_params=2"),
        (lambda: (network(num_params=3), Categorical(3)), "num_features=1, Categorical needs num_features=3"),
        (lambda: (network(num_variables=3), Mixed([Gaussian()], which=[0, 0])), "2 variables, the network has 3"),
    ],
)
def test_a_head_that_does_not_fit_the_network_is_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        AnyOrderModel(*parts())
