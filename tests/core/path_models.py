"""Small path networks and models over them, for the tests of both."""

import math

import torch

from mac_policy.core import AnyOrderModel
from mac_policy.core.heads import Categorical
from mac_policy.core.networks import PathTransformer
from tests.core.models import CONTEXT, K, N

KINDS = {
    "free": {"given": "free"},
    "causal": {"given": "causal"},
    "free-token": {"given": "free", "context_as": "token"},
    "causal-token": {"given": "causal", "context_as": "token", "value_embedding": "mlp", "rotary": True},
    "free-adaptive": {"given": "free", "context_as": "adaptive", "rotary": True},
    "causal-adaptive": {"given": "causal", "context_as": "adaptive", "trunk_width": 8, "trunk_depth": 2},
}
SIZES = {"width": 16, "depth": 2, "heads": 2}


def make_path_model(factorization, kind="free", head=None, context_dim=CONTEXT, seed=0, **settings) -> AnyOrderModel:
    torch.manual_seed(seed)
    head = head or Categorical(K)
    network = PathTransformer(
        num_variables=factorization.num_variables,
        num_features=head.num_features,
        num_params=head.num_params,
        context_dim=context_dim,
        num_modes=len(getattr(factorization, "modes", ())),
        **SIZES | KINDS[kind] | settings,
    )
    for parameter in network.parameters():  # far from uniform, so that a wrong token shows
        parameter.data = torch.randn_like(parameter) / 2
    return AnyOrderModel(network, head).double()


def step_by_step(model, x, ranks, context=None, mode=None) -> torch.Tensor:
    """(B, N, P): a pass for every row and variable, which knows only what precedes the variable; the rest is NaN."""
    out = torch.zeros(*x.shape, model.head.num_params, dtype=torch.float64)
    encoded = model.network.encode(context)
    for r, variable in ((ranks >= 0) & (ranks < x.shape[1])).nonzero().tolist():
        known = ranks[r] < ranks[r, variable]
        path = torch.where(known, ranks[r], x.shape[1])
        path[variable] = ranks[r, variable]
        features = model.head.features(x[r : r + 1]).double()
        features = torch.where(known[None, :, None], features, math.nan)
        row = slice(r, r + 1)
        conditions = (None if part is None else part[row] for part in (encoded, mode))
        out[r, variable] = model.network(features, path[None], *conditions)[0, variable]
    return out


def random_paths(rows, generator, ties=False) -> torch.Tensor:
    """(rows, N) ranks of any kind: some variables are given, some asked, some neither; in three rows none is."""
    ranks = torch.rand(rows, N, generator=generator).argsort(1)
    given = torch.randint(N, (rows, 1), generator=generator)
    asked = torch.randint(N + 1, (rows, 1), generator=generator).minimum(N - given)
    asked[0], given[1], given[2], asked[2] = 0, 0, 0, N
    ranks = ranks - given
    ranks = torch.where(ranks < asked, ranks, N)
    return torch.where(ranks < N, ranks.div(2, rounding_mode="floor"), N) if ties else ranks
