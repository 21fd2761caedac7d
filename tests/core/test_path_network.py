"""What a path network promises: one pass equals many, nothing leaks from later values, all of it learns."""

import math

import pytest
import torch

from mac_policy.core import MaskTuned, UniformCardinality
from mac_policy.core.networks import PathTransformer
from mac_policy.core.networks.path_attention import attention
from mac_policy.core.networks.path_tokens import path_tokens
from mac_policy.core.question import Steps
from mac_policy.core.staged import StagedModes
from tests.core.models import CONTEXT, K, N
from tests.core.path_models import KINDS, SIZES, make_path_model, random_paths, step_by_step

ROWS = 24
STAGED = StagedModes((2, 3))
every_kind = pytest.mark.parametrize("kind", KINDS)


def build(kind, **settings):
    return make_path_model(STAGED, kind, **settings)


def inputs(seed=0, ties=False):
    """Values, ranks, context and mode of ROWS rows."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(K, (ROWS, N), generator=g).double()
    context = torch.randn(ROWS, CONTEXT, generator=g, dtype=torch.float64)
    return x, random_paths(ROWS, g, ties), context, torch.randint(7, (ROWS,), generator=g)


def run(model, x, ranks, context, mode):
    features = model.head.features(x)
    return model.network(features, ranks, model.network.encode(context), mode)


def asked(ranks):
    return (ranks >= 0) & (ranks < ranks.shape[1])


def test_the_tokens_of_a_path_are_as_drawn():
    """Variables 4 and 1 given in this order, then 0, 3, 2 asked; 5 neither."""
    ranks = torch.tensor([[0, -1, 2, 1, -2, 6]])
    free, causal = path_tokens(ranks, free=True), path_tokens(ranks, free=False)
    assert free.value.tolist() == [[4, 1, 6, 0, 3]]
    assert free.target.tolist() == [[6, 6, 0, 3, 2]]
    assert causal.value.tolist() == [[6, 4, 1, 0, 3]]
    assert causal.target.tolist() == [[4, 1, 0, 3, 2]]
    for tokens in (free, causal):
        assert tokens.asked.tolist() == [[False, False, True, True, True]]
        assert tokens.chain.all()


def test_variables_asked_together_have_tokens_beside_the_path():
    tokens = path_tokens(torch.tensor([[0, 0, 1, 1, 1, -1]]), free=False)
    assert tokens.value[tokens.chain].tolist() == [6, 5, 0, 1]  # what comes after the last question is left out
    beside = ~tokens.chain & tokens.valid
    assert tokens.target[beside].tolist() == [1, 3, 4]
    assert tokens.value[beside].tolist() == [5, 1, 1]
    assert sorted(tokens.target[tokens.asked].tolist()) == [0, 1, 2, 3, 4]


@every_kind
@pytest.mark.parametrize("ties", [False, True], ids=["one-by-one", "together"])
def test_one_pass_equals_a_pass_for_each_step_that_knows_only_what_precedes(kind, ties):
    model = build(kind)
    x, ranks, context, mode = inputs(ties=ties)
    with torch.no_grad():
        found, expected = run(model, x, ranks, context, mode), step_by_step(model, x, ranks, context, mode)
    assert expected.isfinite().all()
    assert expected[asked(ranks)].abs().min() > 0
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@every_kind
@pytest.mark.parametrize("ties", [False, True], ids=["one-by-one", "together"])
def test_the_cache_equals_one_pass(kind, ties):
    """Told the values one after the other, with rows that end at different steps."""
    model = build(kind)
    x, ranks, context, mode = inputs(ties=ties)
    steps = Steps(ranks)
    features = model.head.features(x).double()
    with torch.no_grad():
        expected = run(model, x, ranks, context, mode)
        state = model.network.begin(features, ranks, model.network.encode(context), mode, steps.columns)
        state.select(steps.rows)
        found = torch.zeros_like(expected)
        for step in range(steps.number):
            targets = steps.targets(step)
            params = model.network.ask(state, targets)
            item, column = (targets < N).nonzero(as_tuple=True)
            found[steps.rows[item], targets[item, column]] = params[item, column]
            index = targets.clamp(max=N - 1)
            model.network.tell(state, targets, features[steps.rows[: len(targets), None], index])
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@every_kind
def test_a_later_value_changes_no_earlier_conditional(kind):
    model = build(kind)
    x, ranks, context, mode = inputs()
    reference = run(model, x, ranks, context, mode)
    for step in range(N):
        later = (ranks >= step) & (ranks < N)
        changed = run(model, torch.where(later, (x + 1) % K, x), ranks, context, mode)
        same = ranks <= step
        assert torch.equal(changed[same], reference[same])
        heard = asked(ranks) & (ranks == step + 1)
        assert (changed[heard] != reference[heard]).any(-1).all()


@every_kind
def test_what_is_given_and_what_precedes_matters_and_what_is_neither_does_not(kind):
    model = build(kind)
    x, ranks, context, mode = inputs()
    reference = run(model, x, ranks, context, mode)
    with_given = (ranks < 0).any(1) & asked(ranks).any(1)
    changed = run(model, torch.where(ranks < 0, (x + 1) % K, x), ranks, context, mode)
    assert (changed != reference)[with_given].flatten(1).any(1).all()
    features = torch.where((ranks < N)[..., None], model.head.features(x), math.nan)
    unseen = model.network(features, ranks, model.network.encode(context), mode)
    assert torch.equal(unseen, reference)
    some = asked(ranks).any(1)
    for other in (run(model, x, ranks, context + 1, mode), run(model, x, ranks, context, (mode + 1) % 7)):
        assert (other != reference)[some].flatten(1).any(1).all()


@pytest.mark.parametrize(("kind", "matters"), [("free", False), ("causal", True)])
def test_the_order_of_what_is_given_matters_only_to_causal_attention(kind, matters):
    model = build(kind)
    x, ranks, context, mode = inputs()
    reversed_ = torch.where(ranks < 0, -1 - ranks - (ranks < 0).sum(1, keepdim=True), ranks)
    first, second = run(model, x, ranks, context, mode), run(model, x, reversed_, context, mode)
    assert torch.allclose(first, second, atol=1e-10) != matters


@every_kind
def test_a_batch_of_paths_of_all_lengths_equals_its_rows_one_by_one(kind):
    model = build(kind)
    batch = inputs()
    together = run(model, *batch)
    alone = torch.cat([run(model, *(part[i : i + 1] for part in batch)) for i in range(ROWS)])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12)


@every_kind
def test_work_is_for_the_tokens_that_there_are(kind):
    model = build(kind)
    x, ranks, context, mode = inputs()
    seen = []
    model.network.blocks[0].mlp.register_forward_hook(lambda module, arguments, out: seen.append(arguments[0].shape))
    run(model, x, ranks, context, mode)
    prefixes = ROWS if model.network.prefix else 0
    assert seen == [(int((ranks < N).sum()) + prefixes, SIZES["width"])]


@every_kind
def test_every_parameter_gets_a_gradient_that_is_finite_though_unseen_values_are_not(kind):
    torch.manual_seed(0)
    network = PathTransformer(
        num_variables=N, num_features=1, num_params=4, context_dim=CONTEXT, num_modes=7, **SIZES | KINDS[kind]
    ).double()
    x, ranks, context, mode = inputs()
    features = torch.where(ranks < N, x, math.nan)[..., None]
    network(features, ranks, network.encode(context), mode).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(("query", "learns"), [("marginal", False), ("both", True)])
def test_free_attention_learns_to_read_evidence_from_queries_that_have_some(query, learns):
    factorization = MaskTuned(UniformCardinality(N), query=query)
    model = make_path_model(factorization, "free", context_dim=0)
    g = torch.Generator().manual_seed(0)
    x = torch.randint(K, (32, N), generator=g).double()
    model.loss(x, factorization.training_queries(32, g)).backward()
    of_no_target = model.network.target.weight.grad[N]
    assert bool(of_no_target.any()) == learns


@every_kind
def test_outputs_start_small_but_not_constant(kind):
    torch.manual_seed(0)
    network = PathTransformer(num_variables=N, num_features=K, num_params=9, context_dim=2, **SIZES | KINDS[kind])
    x, ranks, context, _ = inputs()
    features = torch.nn.functional.one_hot(x.long(), K).float()
    out = network(features, ranks, network.encode(context.float()))
    assert 0.005 < out[asked(ranks)].std() < 0.5


@every_kind
def test_it_can_be_saved_and_loaded(kind, tmp_path):
    model, other = build(kind), build(kind, seed=1)
    batch = inputs()
    assert not torch.equal(run(model, *batch), run(other, *batch))
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert torch.equal(run(model, *batch), run(other, *batch))


@every_kind
def test_it_runs_in_bfloat16_autocast_in_one_pass_and_from_the_cache(kind):
    model = build(kind).float()
    for parameter in model.parameters():
        parameter.data /= 2
    x, ranks, context, mode = inputs()
    batch = (x.float(), ranks, context.float(), mode)
    exact = run(model, *batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(model, *batch)
        state = model.network.begin(model.head.features(x), ranks, model.network.encode(context.float()), mode, N)
        assert model.network.ask(state, torch.zeros(ROWS, 1, dtype=torch.long)).isfinite().all()
    torch.testing.assert_close(rough.float(), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("is_causal", [True, False])
def test_attention_in_bfloat16_is_that_of_torch(is_causal):
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, 2, 7, 8, generator=g) for _ in range(3))
    mask = None if is_causal else (torch.rand(3, 1, 7, 7, generator=g) < 0.5) | torch.eye(7, dtype=torch.bool)
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
    torch.testing.assert_close(attention(q, k, v, mask, is_causal), exact)
    rough = attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask, is_causal)
    torch.testing.assert_close(rough.float(), exact, atol=0.05, rtol=0.05)
    assert not torch.equal(attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask, is_causal, dropout=0.5), rough)


def test_dropout_drops_in_training_alone():
    model = build("free", dropout=0.5)
    batch = inputs()
    assert not torch.equal(run(model, *batch), run(model, *batch))
    model.eval()
    assert torch.equal(run(model, *batch), run(model, *batch))


@pytest.mark.parametrize("num_variables", [1, 2])
@every_kind
def test_one_variable_no_rows_and_nothing_asked(kind, num_variables):
    sizes = {"num_variables": num_variables, "num_features": 1, "num_params": 3}
    network = PathTransformer(**sizes, **SIZES | KINDS[kind])
    for rows in (0, 2):
        features, ranks = torch.randn(rows, num_variables, 1), torch.zeros(rows, num_variables, dtype=torch.long)
        assert network(features, ranks).shape == (rows, num_variables, 3)
        for nothing in (ranks + num_variables, ranks - num_variables):
            assert network(features, nothing).abs().sum() == 0


@every_kind
def test_wrong_inputs_are_named(kind):
    model = build(kind)
    x, ranks, context, mode = inputs()
    features, encoded = model.head.features(x), model.network.encode(context)
    wrong = {
        "features have shape": (features[:, 1:], ranks, encoded, mode),
        "ranks have shape": (features, ranks[:, 1:], encoded, mode),
        "torch.long": (features, ranks.double(), encoded, mode),
        "context is missing": (features, ranks, None, mode),
        "encoded context has 23 rows": (features, ranks, encoded[1:], mode),
        "mode is missing": (features, ranks, encoded, None),
        r"mode\[0\] is 7.*0..6": (features, ranks, encoded, torch.full_like(mode, 7)),
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            model.network(*arguments)
        with pytest.raises(ValueError, match=message):
            model.network.begin(*arguments, room=3)
    for message, bad in {"context is None": None, "context has shape": context[:, 1:]}.items():
        with pytest.raises(ValueError, match=message):
            model.network.encode(bad)


def test_with_rotation_attention_goes_by_distance():
    """All variables given the same value and no positions but the turns: targets as far from it are asked alike."""
    torch.manual_seed(0)
    network = PathTransformer(num_variables=9, num_features=1, num_params=3, **SIZES, rotary=True).double()
    with torch.no_grad():
        for table in (network.position, network.target):
            table.weight[:9] = 0.0
        for block in network.blocks:
            block.merge.weight.normal_()
    ranks = torch.full((9, 9), 9)
    for row, (seen, asked_) in enumerate([(0, 2), (3, 5), (6, 8), (2, 0), (8, 6), (0, 3), (5, 8), (4, 4), (1, 8)]):
        ranks[row, seen], ranks[row, asked_] = -1, 0
    features = torch.zeros(9, 9, 1).double()
    features[ranks < 0] = 1.5
    out = network(features, ranks).sum(1)
    torch.testing.assert_close(out[0], out[1])
    torch.testing.assert_close(out[0], out[2])
    torch.testing.assert_close(out[3], out[4])
    torch.testing.assert_close(out[5], out[6])
    assert not torch.allclose(out[0], out[3])
    assert not torch.allclose(out[0], out[5])


SMALL = {"num_variables": 4, "num_features": 1, "num_params": 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width.*got 0"),
        ({"width": 10}, "width is 10.*heads=4"),
        ({"depth": 0}, "depth.*got 0"),
        ({"num_variables": 0}, "num_variables.*got 0"),
        ({"given": "freely"}, "'freely'.*'free', 'causal'.*did you mean 'free'"),
        ({"context_as": "prefix"}, "'prefix'.*'added', 'token', 'adaptive'"),
        ({"value_embedding": "fourier"}, "'auto', 'linear', 'mlp'"),
        ({"trunk_depth": 2}, "trunk_width.*at least 1, got 0"),
        ({"width": 12, "rotary": True}, "width is 12.*two for each head=8"),
        ({"trunk_depth": -1}, "trunk_depth.*got -1"),
    ],
)
def test_bad_sizes_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        PathTransformer(**SMALL | settings)
