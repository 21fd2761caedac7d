"""The papers' largest networks build, and do one forward and one backward pass at batch 1."""

import math
import time

import pytest
import torch

from mac_policy.core.heads import Categorical, Head
from mac_policy.core.networks import SetNetwork, Transformer, UNet


def text8() -> tuple[SetNetwork, Head]:
    head = Categorical(27)
    sizes = {"num_variables": 250, "num_features": head.num_features, "num_params": head.num_params}
    return Transformer(**sizes, width=768, depth=12, heads=12, mlp_width=3072), head


def cifar10() -> tuple[SetNetwork, Head]:
    head = Categorical(256, encoding="scalar")
    sizes = {"shape": (3, 32, 32), "num_features": head.num_features, "num_params": head.num_params}
    return UNet(**sizes, base_channels=256, blocks=32), head


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "least", "most"), [(text8, 85e6, 88e6), (cifar10, 125e6, 130e6)], ids=["text8", "cifar10"]
)
def test_paper_sizes_build_and_learn(build, least, most, capsys):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network, head = build()
    x = torch.randint(head.num_params, (1, network.num_variables), generator=generator)
    evidence = torch.rand(1, network.num_variables, generator=generator) < 0.5
    start = time.perf_counter()
    losses = head.loss(network(head.features(x), evidence), x)
    middle = time.perf_counter()
    losses[~evidence].mean().backward()
    end = time.perf_counter()
    parameters = sum(p.numel() for p in network.parameters())
    name = type(network).__name__
    with capsys.disabled():
        print(f"\n{name}: {parameters:,} parameters, forward {middle - start:.1f} s, backward {end - middle:.1f} s")
    assert least < parameters < most
    assert losses.mean().item() == pytest.approx(math.log(head.num_params), abs=0.2)
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name
