"""Properties that every set network has: unseen values do not matter, rows do not mix, all of it learns."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mac_policy.core.networks import MLP, SetNetwork, Transformer, TrunkQuery, UNet
from mac_policy.core.networks.embeddings import StepEmbedding, sinusoidal
from mac_policy.core.networks.image_blocks import Attention, Stage

ROWS, FEATURES, PARAMS, CONTEXT, MODES = 6, 2, 5, 4, 3
SIZES = {"num_features": FEATURES, "num_params": PARAMS, "context_dim": CONTEXT}
SET = {"num_variables": 12, **SIZES}
IMAGE = {"shape": (3, 4, 4), **SIZES, "base_channels": 16}
NETWORKS = {
    "mlp": lambda **k: MLP(**SET, width=32, depth=3, **k),
    "mlp-dropout": lambda **k: MLP(**SET, width=32, depth=3, dropout=0.1, **k),
    "mlp-residual": lambda **k: MLP(**SET, width=32, depth=2, residual=True, step_dim=8, **k),
    "transformer": lambda **k: Transformer(**SET, width=32, depth=2, heads=4, **k),
    "transformer-rotary": lambda **k: Transformer(**SET, width=32, depth=2, heads=4, rotary=True, **k),
    "transformer-token": lambda **k: Transformer(**SET, width=32, depth=2, context_as="token", dropout=0.1, **k),
    "trunk-query": lambda **k: TrunkQuery(**SET, trunk_width=48, trunk_depth=2, query_width=32, step_dim=8, **k),
    "trunk-query-residual": lambda **k: TrunkQuery(**SET, trunk_width=48, query_width=32, residual=True, **k),
    "unet": lambda **k: UNet(**IMAGE, blocks=2, **k),
    "unet-two-layers": lambda **k: UNet(**IMAGE, blocks=1, layers=2, in_planes=8, heads=2, attention_size=2, **k),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def build(name: str, num_modes: int = MODES) -> SetNetwork:
    torch.manual_seed(0)
    return NETWORKS[name](num_modes=num_modes).double().eval()


def inputs(network: SetNetwork, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, evidence, context and mode for ROWS rows."""
    g = torch.Generator().manual_seed(seed)
    n = network.num_variables
    features = torch.randn(ROWS, n, FEATURES, generator=g, dtype=torch.float64)
    evidence = torch.rand(ROWS, n, generator=g) < 0.5
    context = torch.randn(ROWS, CONTEXT, generator=g, dtype=torch.float64)
    return features, evidence, context, torch.randint(MODES, (ROWS,), generator=g)


def run(network: SetNetwork, features: Tensor, evidence: Tensor, context: Tensor, mode: Tensor) -> Tensor:
    out: Tensor = network(features, evidence, network.encode(context), mode)
    return out


@every_network
def test_shape(name):
    network = build(name)
    assert run(network, *inputs(network)).shape == (ROWS, network.num_variables, PARAMS)
    assert network.kind == "set"


@every_network
def test_unseen_values_change_no_bit_of_the_output(name):
    network = build(name)
    features, evidence, context, mode = inputs(network)
    reference = run(network, features, evidence, context, mode)
    for other in (7.0, math.nan, math.inf):
        changed = torch.where(evidence[..., None], features, other)
        assert torch.equal(run(network, changed, evidence, context, mode), reference)


@every_network
def test_unseen_nan_leaves_gradients_finite(name):
    network = build(name)
    features, evidence, context, mode = inputs(network)
    features = torch.where(evidence[..., None], features, math.nan)
    run(network, features, evidence, context, mode).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@every_network
def test_seen_values_evidence_context_and_mode_all_matter(name):
    network = build(name)
    features, evidence, context, mode = inputs(network)
    reference = run(network, features, evidence, context, mode)

    def changed(*changed_inputs: Tensor) -> Tensor:
        return (run(network, *changed_inputs) != reference).flatten(1).any(1)

    assert changed(features + 0.5, evidence, context, mode).all()
    assert changed(features, evidence, context + 0.5, mode).all()
    assert changed(features, evidence, context, (mode + 1) % MODES).all()
    # A zero that is seen is not an unseen value.
    zeros = torch.zeros_like(features)
    with_zero = run(network, zeros, evidence, context, mode)
    assert (run(network, zeros, torch.zeros_like(evidence), context, mode) != with_zero).flatten(1).any(1).all()


@every_network
def test_every_variable_hears_of_every_other(name):
    network = build(name)
    features, evidence, context, mode = inputs(network)
    evidence[:] = True
    features = features.requires_grad_()
    out = run(network, features, evidence, context, mode)[0, :, 0]
    for i in range(network.num_variables):
        (grad,) = torch.autograd.grad(out[i], features, retain_graph=True)
        assert (grad[0].abs().sum(-1) > 0).all()
        assert grad[1:].abs().sum() == 0


@every_network
def test_a_batch_equals_its_rows_one_by_one(name):
    network = build(name)
    batch = inputs(network)
    together = run(network, *batch)
    alone = torch.cat([run(network, *(x[i : i + 1] for x in batch)) for i in range(ROWS)])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12)


@every_network
def test_every_parameter_gets_a_gradient(name):
    network = build(name).train()
    run(network, *inputs(network)).square().sum().backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_network
def test_outputs_start_small_but_not_constant(name):
    network = build(name)
    out = run(network, *inputs(network))
    assert 0.005 < out.std() < 0.5


@every_network
def test_it_runs_in_bfloat16_autocast_and_learns_from_float32_features(name):
    network = build(name).float()
    features, evidence, context, mode = inputs(network)
    exact = run(network, features, evidence, context.float(), mode)  # float64 features are converted
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(network, features.float(), evidence, context.float(), mode)
    torch.testing.assert_close(rough.float(), exact, rtol=0.2, atol=0.05)


@every_network
def test_it_can_be_saved_and_loaded(name, tmp_path):
    network, other = build(name), NETWORKS[name](num_modes=MODES).double().eval()
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    batch = inputs(network)
    assert not torch.equal(run(network, *batch), run(other, *batch))
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert torch.equal(run(network, *batch), run(other, *batch))


@every_network
def test_wrong_inputs_are_named(name):
    network = build(name)
    features, evidence, context, mode = inputs(network)
    encoded = network.encode(context)
    wrong = {
        "features have shape": (features[:, 1:], evidence, encoded, mode),
        "evidence has shape": (features, evidence[:, 1:], encoded, mode),
        "torch.bool": (features, evidence.long(), encoded, mode),
        "context is missing": (features, evidence, None, mode),
        "encoded context has 5 rows: it must have one for each of the 6 rows": (features, evidence, encoded[1:], mode),
        "encoded context has 1 rows": (features, evidence, encoded[:1], mode),
        "mode is missing": (features, evidence, encoded, None),
        "mode has shape": (features, evidence, encoded, mode[1:]),
        rf"mode\[0\] is {MODES}.*0..{MODES - 1}": (features, evidence, encoded, torch.full_like(mode, MODES)),
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            network(*arguments)
    refused = {
        "context is None": None,
        "context has shape": context[:, 1:],
        "context is of type torch.int64": context.long(),
        "context is of type list": context.tolist(),
    }
    for message, bad in refused.items():
        with pytest.raises(ValueError, match=message):
            network.encode(bad)
    with pytest.raises(ValueError, match="mode is given"):
        build(name, num_modes=0)(features, evidence, encoded, mode)


@pytest.mark.parametrize("network_class", [MLP, Transformer, UNet])
def test_without_context_or_modes(network_class):
    shape = {"shape": (1, 3, 4)} if network_class is UNet else {"num_variables": 12}
    network = network_class(**shape, num_features=1, num_params=3)
    features, evidence = torch.randn(2, 12, 1), torch.rand(2, 12) < 0.5
    assert network.encode(None) is None
    assert network(features, evidence).shape == (2, 12, 3)
    with pytest.raises(ValueError, match="context is given"):
        network.encode(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="encoded context is given"):
        network(features, evidence, torch.zeros(2, 4))


def test_the_trunk_is_read_once_and_knows_nothing_of_the_evidence():
    network = build("trunk-query")
    features, evidence, context, mode = inputs(network)
    reads = []
    network.trunk.register_forward_hook(lambda *_: reads.append(1))
    encoded = network.encode(context)
    for known in (evidence, ~evidence):
        network(features, known, encoded, mode)
    assert len(reads) == 1
    trunk = sum(p.numel() for p in network.trunk.parameters())
    big = TrunkQuery(num_variables=9, num_features=1, num_params=60, context_dim=30)
    trunk = sum(p.numel() for p in big.trunk.parameters())
    assert sum(p.numel() for p in big.parameters()) - trunk < 0.15 * trunk


def test_unet_variables_are_channel_major():
    """Variable c H W + h W + w enters and leaves at channel c of pixel (h, w)."""
    network = UNet(shape=(3, 4, 5), num_features=2, num_params=7, base_channels=8, blocks=1)
    seen = {}
    network.input.register_forward_hook(lambda module, arguments, out: seen.update(image=arguments[0]))
    network.output.register_forward_hook(lambda module, arguments, out: seen.update(params=out))
    features, evidence = torch.randn(2, 60, 2), torch.ones(2, 60, dtype=torch.bool)
    evidence[:, 33] = False
    out = network(features, evidence)
    assert seen["image"].shape == (2, 9, 4, 5)
    for c, h, w in [(0, 0, 3), (1, 2, 3), (2, 3, 4), (1, 2, 2)]:
        i = c * 20 + h * 5 + w
        value = torch.zeros(2, 2) if not evidence[0, i] else features[:, i]
        assert torch.equal(seen["image"][:, 2 * c : 2 * c + 2, h, w], value)
        assert (seen["image"][:, 6 + c, h, w] == evidence[:, i]).all()
        assert torch.equal(seen["params"][:, 7 * c : 7 * c + 7, h, w], out[:, i])


def unet_for_hooks(**settings) -> UNet:
    return UNet(shape=(1, 8, 8), num_features=1, num_params=2, base_channels=8, blocks=2, layers=2, **settings).eval()


def test_unet_hands_every_step_down_to_its_step_up():
    network = unet_for_hooks()
    down, handed = [], []
    network.input.register_forward_hook(lambda module, arguments, out: down.append(out))
    for step in network.down:
        step.register_forward_hook(lambda module, arguments, out: down.append(out))
    for step in network.up:
        if isinstance(step, Stage):
            step.register_forward_pre_hook(lambda module, arguments: handed.append(arguments[0]))
    network(torch.randn(2, 64, 1), torch.rand(2, 64) < 0.5)
    assert len(down) == len(handed) == 6
    for skip, inputs in zip(reversed(down), handed, strict=True):
        assert skip.abs().sum() > 0
        assert torch.equal(inputs[:, -skip.shape[1] :], skip)


@pytest.mark.parametrize(("attention_size", "attending"), [(0, 1), (4, 6), (8, 11)])
def test_unet_attends_at_the_resolutions_asked_for(attention_size, attending):
    """One in the middle always; two blocks down and three up at 4 x 4, and as many at 8 x 8."""
    network = unet_for_hooks(attention_size=attention_size)
    features, evidence = torch.randn(2, 64, 1), torch.rand(2, 64) < 0.5
    reference = network(features, evidence)
    layers = [module for module in network.modules() if isinstance(module, Attention)]
    assert len(layers) == attending
    for attention in layers:
        value = attention.merge.weight.clone()
        with torch.no_grad():
            attention.merge.weight += 0.5
        assert not torch.equal(network(features, evidence), reference)
        with torch.no_grad():
            attention.merge.weight.copy_(value)


def test_attention_lets_far_pixels_be_seen():
    attention = Attention(8, heads=2)
    image = torch.randn(1, 8, 6, 6)
    out = attention(image)
    changed = image.clone()
    swapped = [3, 2, 1, 0, 7, 6, 5, 4]  # within the norm's two groups, whose mean and variance stay
    changed[:, :, 0, 0] = changed[:, swapped, 0, 0]
    assert (attention(changed) - out)[:, :, 5, 5].abs().max() > 1e-6
    assert not torch.equal(out, image)


def test_the_mlp_of_the_paper_has_its_size():
    network = MLP(num_variables=9, num_features=1, num_params=60, context_dim=30, width=2048, depth=8)
    hidden = [m for m in network.hidden if isinstance(m, torch.nn.Linear)]
    assert [layer.out_features for layer in hidden] == [2048] * 8


def test_step_embedding_tells_all_counts_apart():
    table = sinusoidal(1000 * torch.arange(3073, dtype=torch.float64) / 3072, 32)
    assert table.shape == (3073, 32)
    assert torch.pdist(table[::16]).min() > 1e-2
    assert (table[1:] - table[:-1]).norm(dim=1).min() > 1e-2


def test_step_embedding_is_a_function_of_how_much_is_seen():
    evidence = torch.tensor([[True, False, False, False], [False, False, True, False], [True, True, False, True]])
    embedded = StepEmbedding(8)(evidence, torch.float64)
    assert embedded.shape == (3, 8)
    assert torch.equal(embedded[0], embedded[1])
    assert (embedded[0] - embedded[2]).abs().max() > 0.1
    torch.testing.assert_close(embedded, sinusoidal(1000 * torch.tensor([0.25, 0.25, 0.75]).double(), 8))


@pytest.mark.parametrize("make", [MLP, Transformer], ids=["mlp", "transformer"])
def test_sizes_may_be_numpys(make):
    four = np.int64(4)
    network = make(num_variables=four, num_features=np.int32(1), num_params=four, width=np.int64(8))
    assert network(torch.zeros(2, 4, 1), torch.ones(2, 4, dtype=torch.bool)).shape == (2, 4, 4)


SMALL = {"num_variables": 4, "num_features": 1, "num_params": 2}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP(**{**SMALL, "num_variables": 0}), "num_variables.*got 0"),
        (lambda: MLP(**{**SMALL, "num_features": 0}), "num_features.*got 0"),
        (lambda: MLP(**{**SMALL, "num_params": 0}), "num_params.*got 0"),
        (lambda: MLP(**SMALL, context_dim=-1), "context_dim.*got -1"),
        (lambda: MLP(**SMALL, num_modes=1.5), "num_modes.*got 1.5"),
        (lambda: MLP(**SMALL, width=0), "width.*got 0"),
        (lambda: MLP(**SMALL, depth=0), "depth.*got 0"),
        (lambda: MLP(**SMALL, step_dim=3), "step embedding's size is 3"),
        (lambda: Transformer(**SMALL, width=7, heads=1), "step embedding's size is 7"),
        (lambda: Transformer(**SMALL, width=10, heads=4), "width is 10.*heads=4"),
        (lambda: Transformer(**SMALL, context_as="prefix"), "'prefix'.*'added', 'token'"),
        (lambda: TrunkQuery(**SMALL, context_dim=0), "context_dim.*got 0"),
        (lambda: UNet(shape=(3, 4), num_features=1, num_params=2), r"shape must be .*\(3, 4\)"),
        (lambda: UNet(shape=(3, 4, 0), num_features=1, num_params=2), "width.*got 0"),
        (lambda: UNet(shape=(3, 4, 4), num_features=1, num_params=2, base_channels=10), "base_channels is 10"),
        (lambda: UNet(shape=(3, 6, 6), num_features=1, num_params=2, layers=3), "height is 6.*=4"),
        (lambda: UNet(shape=(3, 4, 4), num_features=1, num_params=2, in_planes=9, heads=2), "in_planes is 9"),
    ],
)
def test_bad_sizes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("trunk", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_some_conditionals_are_those_of_all(residual, trunk, share):
    sizes = {"num_variables": 11, "num_features": 2, "num_params": 3, "context_dim": 4, "residual": residual}
    network = (TrunkQuery if trunk else MLP)(**sizes).double()
    random = torch.Generator().manual_seed(0)
    features = torch.randn(7, 11, 2, generator=random, dtype=torch.float64)
    evidence, wanted = (torch.rand(7, 11, generator=random) < each for each in (0.4, share))
    encoded = network.encode(torch.randn(7, 4, generator=random, dtype=torch.float64))
    for mask in (wanted, torch.arange(11).expand(7, -1) == 5, torch.zeros_like(wanted), torch.ones_like(wanted)):
        every = network(features, evidence, encoded)
        torch.testing.assert_close(network.some(features, evidence, encoded, None, mask), every[mask])
