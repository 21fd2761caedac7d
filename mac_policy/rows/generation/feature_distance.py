"""The Frechet distance between two sets of images, in the features of a small classifier.

FID (Heusel et al. 2017) takes the features of an Inception network trained on ImageNet. These are the features of a
small classifier trained here, so the numbers compare models with one another and with nothing published.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.rows.generation.feature_network import FeatureNetwork
from mac_policy.rows.sets.row_set import Rows

NAME = "Frechet distance in features of a small classifier trained here, not FID"


class Moments(NamedTuple):
    """Of a set of features, float64."""

    mean: Tensor  # (D,)
    covariance: Tensor  # (D, D)


def moments(features: Tensor) -> Moments:
    """Of features (S, D)."""
    if features.ndim != 2 or len(features) < 2:
        raise ValueError(f"features have shape {tuple(features.shape)}: they must be (S, D) of at least two rows")
    features = features.double()
    centred = features - features.mean(0)
    return Moments(features.mean(0), centred.T @ centred / (len(features) - 1))


def frechet_distance(first: Moments, second: Moments) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)): the squared 2-Wasserstein distance of the two normal laws.

    C1 C2 has the eigenvalues of the symmetric C1^(1/2) C2 C1^(1/2), so the trace needs no root of a matrix that is not
    symmetric, also where features are constant.

    >>> import torch
    >>> from mac_policy.rows.generation.feature_distance import Moments, frechet_distance
    >>> round(frechet_distance(Moments(torch.zeros(1), torch.eye(1)), Moments(torch.ones(1), 4 * torch.eye(1))), 6)
    2.0
    """
    values, vectors = torch.linalg.eigh(first.covariance.double())
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    shared = torch.linalg.eigvalsh(root @ second.covariance.double() @ root).clamp(min=0).sqrt().sum()
    apart = (first.mean.double() - second.mean.double()).square().sum()
    traces = first.covariance.double().trace() + second.covariance.double().trace()
    return max(float(apart + traces - 2 * shared), 0.0)


def feature_distance(network: FeatureNetwork, first: Rows | Tensor, second: Rows | Tensor) -> float:
    """Between two sets of images (S, N). Few images make it too large, so distances want the same numbers of them.

    What two halves of the real images have between them is the least to be reached with as many.
    """
    return frechet_distance(moments(network.features_of(first)), moments(network.features_of(second)))
