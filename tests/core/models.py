"""Small models, queries and paths that the tests of AnyOrderModel share."""

import itertools

import torch

from mac_policy.core import AnyOrderModel, MaskTuned, StagedModes, UniformCardinality, UniformOrder
from mac_policy.core.heads import Categorical
from mac_policy.core.networks import MLP

N, K, CONTEXT = 6, 3, 2
ORDER = torch.tensor([3, 0, 5, 1, 4, 2])
STAGED = StagedModes((2, 3))
FACTORIZATIONS = {
    "uniform": UniformOrder(N),
    "mac": MaskTuned(UniformCardinality(N)),
    "mac-permuted": MaskTuned(UniformCardinality(N), ORDER, query="both", weights="edge"),
    "mac-random": MaskTuned(UniformCardinality(N), protocol="random"),
    "staged": STAGED,
    "staged-interior": StagedModes((2, 3), {"random": [], "some first": [0, 4]}).at("some first"),
    "channels": StagedModes((3,), channels=2),
}
PAIRS = [  # (query, given), lowest index first
    ("111111", "000000"),
    ("000000", "000000"),
    ("000000", "111111"),
    ("000100", "000000"),
    ("100000", "011111"),
    ("101010", "010101"),
    ("001100", "100001"),
]


def mask(bits: str) -> torch.Tensor:
    return torch.tensor([bit == "1" for bit in bits])


def make_model(factorization, head=None, context_dim=CONTEXT, seed=0) -> AnyOrderModel:
    torch.manual_seed(seed)
    head = head or Categorical(K)
    network = MLP(
        num_variables=factorization.num_variables,
        num_features=head.num_features,
        num_params=head.num_params,
        context_dim=context_dim,
        num_modes=len(getattr(factorization, "modes", ())),
        width=24,
        depth=2,
    )
    for parameter in network.parameters():  # far from uniform, so that a wrong mask shows
        parameter.data = torch.randn_like(parameter) / 2
    return AnyOrderModel(network, head).double()


def slow_log_prob(model, x, query, ranks, context, mode):
    """One row, one step and one variable at a time."""
    total = 0.0
    for step in range(N):
        evidence = ranks < step
        for i in range(N):
            if query[i] and ranks[i] == step:
                row = model.conditionals(x[None], evidence=evidence[None], context=context, mode=mode)
                total += row.log_prob(x[None])[0, i].item()
    return total


def every_value(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """x (N,) with every combination of values at the queried places."""
    places = query.nonzero()[:, 0].tolist()
    rows = x.repeat(K ** len(places), 1)
    if places:
        rows[:, places] = torch.tensor(list(itertools.product(range(K), repeat=len(places))), dtype=x.dtype)
    return rows


class WithRanks:
    """A factorisation whose random path has been drawn already."""

    deterministic = False

    def __init__(self, factorization, ranks):
        self.num_variables, self.path_mode, self._ranks = factorization.num_variables, factorization.path_mode, ranks

    def ranks(self, *, query, given, generator=None):
        return self._ranks.expand(query.shape)
