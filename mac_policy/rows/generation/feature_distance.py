"""The Frechet distance between two sets of images, in the features of a small classifier.

FID (Heusel et al. 2017) takes the features of an Inception network trained on ImageNet. Here a
small classifier is trained on the data set itself, so that the numbers compare with one another, not with published
ones.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.rows.generation.feature_network import FeatureNetwork
from mac_policy.rows.sets.row_set import Rows

NAME = "Frechet distance in features of a small classifier trained here, not FID"


class NormalLaw(NamedTuple):
    """The mean and the covariance of a set of features, float64."""

    mean: Tensor  # (D,)
    covariance: Tensor  # (D, D)


def normal_law(features: Tensor) -> NormalLaw:
    """The normal law with the moments of features (S, D)."""
    if features.ndim != 2 or len(features) < 2:
        raise ValueError(f"features have shape {tuple(features.shape)}: they must be (S, D) of at least two rows")
    features = features.double()
    centred = features - features.mean(0)
    return NormalLaw(features.mean(0), centred.T @ centred / (len(features) - 1))


def frechet_distance(first: NormalLaw, second: NormalLaw) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)): the squared 2-Wasserstein distance of the two normal laws.

    C1 C2 has the eigenvalues of the symmetric C1^(1/2) C2 C1^(1/2), so that the trace needs the roots of symmetric
    matrices alone, also where features are constant.

    >>> import torch
    >>> from mac_policy.rows.generation.feature_distance import NormalLaw, frechet_distance
    >>> round(frechet_distance(NormalLaw(torch.zeros(1), torch.eye(1)), NormalLaw(torch.ones(1), 4 * torch.eye(1))), 6)
    2.0
    """
    values, vectors = torch.linalg.eigh(first.covariance.double())
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    shared = torch.linalg.eigvalsh(root @ second.covariance.double() @ root).clamp(min=0).sqrt().sum()
    apart = (first.mean.double() - second.mean.double()).square().sum()
    traces = first.covariance.double().trace() + second.covariance.double().trace()
    return max(float(apart + traces - 2 * shared), 0.0)


def feature_distance(network: FeatureNetwork, first: Rows | Tensor, second: Rows | Tensor) -> float:
    """The distance between two sets of images (S, N).

    Few images make the distance too large: compare equal numbers of images. Two halves of the real images
    have the smallest distance that can be reached.
    """
    return frechet_distance(normal_law(network.features_of(first)), normal_law(network.features_of(second)))
