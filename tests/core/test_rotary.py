"""Rotary positions of the transformer."""

import pytest
import torch

from mac_policy.core.networks import Transformer
from mac_policy.core.networks.embeddings import rotated

SIZES = {"num_variables": 6, "num_features": 2, "num_params": 3, "width": 16, "depth": 2, "heads": 2}


def test_products_of_turned_vectors_depend_on_their_distance_alone():
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(8, generator=generator, dtype=torch.float64).expand(10, 8) for _ in range(2))
    products = rotated(q) @ rotated(k).T
    for distance in range(-5, 6):
        torch.testing.assert_close(
            products.diagonal(distance), products.diagonal(distance)[:1].expand(10 - abs(distance))
        )
    assert products.diagonal(1)[0] != products.diagonal(-1)[0]  # before and after are told apart
    torch.testing.assert_close(rotated(q).norm(dim=1), q.norm(dim=1))


def outputs(**settings):
    torch.manual_seed(0)
    network = Transformer(**SIZES, **settings).eval()
    with torch.no_grad():
        network.output.weight.normal_()
        network.position.zero_()  # only the rotation tells positions apart
        features = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(1))
        evidence = torch.tensor([[True, False, False, False, False, True]])
        return network(features, evidence)[0]


def test_with_rotation_unseen_variables_differ_by_where_they_are():
    plain, turned = outputs(), outputs(rotary=True)
    torch.testing.assert_close(plain[1], plain[4])
    assert (turned[1] - turned[4]).abs().max() > 1e-3


def test_heads_must_have_pairs_to_turn():
    with pytest.raises(ValueError, match="width is 6: it must be a multiple of two for each head=4"):
        Transformer(**{**SIZES, "width": 6}, rotary=True)
