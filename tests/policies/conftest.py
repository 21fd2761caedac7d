"""Small policies of every kind, all put through the same tests."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mac_policy.common.actions import Actions
from mac_policy.common.labels import Label
from mac_policy.demonstrations import Demonstrations, Episode
from mac_policy.policies.fit import fit_statistics
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces

OBSERVATION, ACTION = 4, 3
SPACES = Spaces.of(
    spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32),
    spaces.Box(np.float32([-1, -2, 0]), np.float32([1, 2, 0.5])),
)
PLACED = Spaces.of(
    *SPACES[:2], Actions(("x", "y", "grip"), ("m",), "relative", observed=(2, 0, 1), scale=(0.5, 0.2, 1.0))
)
"""The same spaces, with actions that can be turned into targets."""
LABELS = (Label("task", ("kettle", "light", "none")), Label("side", ("left", "right")))
SMALL = {
    "bc": {"width": 16, "depth": 2},
    "mac": {"width": 16, "depth": 2, "query_width": 12, "components": 4, "candidates": 4},
    "mac_paper": {"width": 16, "depth": 2, "components": 4},
    "mac_path": {"width": 16, "depth": 2, "query_width": 8, "query_heads": 2, "components": 4, "candidates": 4},
    "ibc": {"width": 16, "depth": 2, "samples": 128, "counter_examples": 8},
}
VARIANTS = {
    "bc": ("bc", {}),
    "bc-chunks": ("bc", {"history": 2, "horizon": 3, "execute": 2}),
    "mac": ("mac", {}),
    "mac-mean": ("mac", {"decode": "mean"}),
    "mac-sample": ("mac", {"decode": "sample"}),
    "mac-best": ("mac", {"decode": "best", "stickiness": 1.0}),
    "mac-episode": ("mac", {"decode": "sample", "noise": "episode"}),
    "mac-slow-best": ("mac", {"decode": "best", "noise": "slow"}),
    "mac-chunks": ("mac", {"history": 2, "horizon": 3, "execute": 2, "decode": "sample"}),
    "mac-order": ("mac", {"order": [2, 0, 1], "subsets": [[0], [1, 2]], "alone": 0.2, "masks": "both"}),
    "mac_paper": ("mac_paper", {}),
    "mac_path": ("mac_path", {}),
    "mac_path-best": ("mac_path", {"decode": "best", "stickiness": 1.0}),
    "mac_path-chunks": ("mac_path", {"history": 2, "horizon": 3, "execute": 2, "decode": "sample"}),
    "mac_path-order": ("mac_path", {"order": [2, 0, 1], "subsets": [[0], [1, 2]], "alone": 0.2, "decode": "mean"}),
    "ibc": ("ibc", {}),
    "ibc-langevin": ("ibc", {"optimizer": "langevin", "langevin_steps": 5, "counter_steps": 2}),
    "ibc-chunks": ("ibc", {"horizon": 2}),
    "bc-absolute": ("bc", {"representation": "absolute"}),
    "bc-absolute-chunks": ("bc", {"representation": "absolute", "horizon": 3, "execute": 2}),
    "mac-plans": ("mac", {"horizon": 3, "execute": 3, "plans": 0.5, "masks": "both"}),
    "mac-absolute-plans": ("mac", {"representation": "absolute", "horizon": 3, "execute": 3, "plans": 0.5}),
    "mac-absolute": ("mac", {"representation": "absolute"}),
    "mac-absolute-best": ("mac", {"representation": "absolute", "decode": "best", "stickiness": 1.0}),
    "mac-absolute-chunks": ("mac", {"representation": "absolute", "history": 2, "horizon": 3, "execute": 3}),
    "mac_paper-absolute": ("mac_paper", {"representation": "absolute"}),
    "mac_path-absolute": ("mac_path", {"representation": "absolute", "decode": "sample"}),
    "mac_path-absolute-chunks": ("mac_path", {"representation": "absolute", "horizon": 2, "execute": 2}),
    "mac-labels": ("mac", {"labelled": True, "masks": "both"}),
    "mac-labels-plans": ("mac", {"labelled": True, "horizon": 3, "execute": 3, "plans": 0.5}),
    "mac-labels-absolute": ("mac", {"labelled": True, "representation": "absolute", "decode": "sample"}),
    "mac-labels-best": ("mac", {"labelled": True, "decode": "best", "stickiness": 1.0, "horizon": 2}),
    "mac_path-labels": ("mac_path", {"labelled": True, "masks": "both"}),
    "ibc-absolute": ("ibc", {"representation": "absolute"}),
    "ibc-absolute-langevin": (
        "ibc",
        {"representation": "absolute", "optimizer": "langevin", "langevin_steps": 5, "counter_steps": 2},
    ),
}


def make(kind, seed=0, **settings):
    """A small policy whose normaliser has seen data with its own mean and spread in each dim."""
    is_absolute = settings.get("representation") == "absolute"
    both = PLACED if is_absolute else SPACES
    if settings.pop("labelled", False):
        both = both._replace(labels=LABELS)
    policy = make_policy(kind, both, SMALL[kind] | settings, seed)
    rng = np.random.default_rng(1)
    observations = rng.normal(2.0, [1.0, 5.0, 0.1, 1e-9], (200, OBSERVATION))
    actions = np.clip(rng.normal([0.1, 0.5, 0.2], [0.3, 1.0, 0.2], (200, ACTION)), [-1, -2, 0], [1, 2, 0.5])
    zeros, no = np.zeros(20, np.float32), np.zeros(20, bool)
    observed, acted = observations.astype(np.float32), actions.astype(np.float32)
    episodes = [
        Episode(observed[[*range(i, i + 20), i + 19]], acted[i : i + 20], zeros, no, no) for i in range(0, 200, 20)
    ]
    fit_statistics(policy, Demonstrations.of(episodes, name="made", kind="scripted"))
    return policy.eval()


def batch(policy, rows=32, seed=0):
    """Observations, actions and inside as training gives them."""
    g, s = torch.Generator().manual_seed(seed), policy.settings
    observations = 2 + torch.randn(rows, s.history, OBSERVATION, generator=g)
    actions = torch.rand(rows, s.horizon, ACTION, generator=g) * 0.5
    inside = torch.arange(s.horizon) <= torch.randint(s.horizon, (rows, 1), generator=g)
    return observations, actions, inside


@pytest.fixture(params=VARIANTS, ids=str)
def policy(request):
    kind, settings = VARIANTS[request.param]
    return make(kind, **settings)
