"""The Frechet distance between two sets of images, in the feature space of a small classifier.

FID (Heusel et al. 2017) takes the features of an Inception network trained on ImageNet. Here a small classifier is
trained on the data set itself. The distances are comparable with one another, but not with published values of FID.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mac_policy.common.checks import check_count
from mac_policy.core.networks.unet import check_shape
from mac_policy.rows.sets.registry import NUM_CLASSES, load_labels
from mac_policy.rows.sets.row_set import Rows, RowSet
from mac_policy.training.streams import Shuffle

NAME = "Frechet distance in features of a small classifier trained here, not FID"
ROWS_AT_ONCE = 256


class FeatureNetwork(nn.Module):
    """Three convolutions, the first two with max pooling, then average pooling to 4 x 4 and a linear layer.

    shape: (channels, height, width) of the images; levels: number of values of a pixel, 0..levels-1.

    >>> import torch
    >>> from mac_policy.rows.generation.features import FeatureNetwork
    >>> FeatureNetwork((1, 28, 28), 256).features(torch.zeros(2, 784)).shape
    torch.Size([2, 64])
    """

    def __init__(
        self,
        shape: Sequence[int],
        levels: int,
        *,
        num_features: int = 64,
        width: int = 16,
        num_classes: int = NUM_CLASSES,
    ) -> None:
        super().__init__()
        self.shape = check_shape(tuple(shape))  # type: ignore[arg-type]
        self.levels = check_count("levels", levels, 2)
        self.num_features = check_count("num_features", num_features)
        check_count("width", width)
        self.layers = nn.Sequential(
            nn.Conv2d(self.shape[0], width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(32 * width, num_features),
            nn.ReLU(),
        )
        self.classes = nn.Linear(num_features, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Compute the features (B, num_features) of rows (B, N) with values 0..levels-1."""
        pixels = x.reshape(-1, *self.shape).to(self.classes.weight.dtype)
        out: Tensor = self.layers(pixels * (2 / (self.levels - 1)) - 1)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """Compute the class logits (B, num_classes)."""
        out: Tensor = self.classes(self.features(x))
        return out

    @torch.no_grad()
    def features_of(self, rows: Rows | Tensor) -> Tensor:
        """Compute the features of many rows in batches: (S, num_features) in float64."""
        starts = range(0, len(rows), ROWS_AT_ONCE)
        parts = [self.features(_tensor(rows, slice(start, start + ROWS_AT_ONCE))) for start in starts]
        return torch.cat(parts).double()

    @torch.no_grad()
    def accuracy(self, rows: Rows | Tensor, labels: NDArray[np.uint8]) -> float:
        """The classification accuracy on these rows."""
        guess = self.classes(self.features_of(rows).to(self.classes.weight.dtype)).argmax(1)
        return float((guess == torch.from_numpy(labels.astype(np.int64))).double().mean())


def train_feature_network(
    rows: RowSet, *, levels: int | None = None, steps: int = 1000, batch_size: int = 64, seed: int = 0, width: int = 16
) -> tuple[FeatureNetwork, float]:
    """Train a network on the classes of the training images. Returns the network and its test accuracy.

    levels: number of levels that images are quantised to (2: thresholded MNIST, for models of binarised images).
    Training is deterministic given the seed. The global random state is restored.

    >>> from mac_policy.rows.sets.registry import load_rows
    >>> network, accuracy = train_feature_network(load_rows("mnist"))  # doctest: +SKIP
    """
    labels = load_labels(rows)
    own = rows.levels or 256
    levels = own if levels is None else check_count("levels", levels, 2)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = FeatureNetwork(rows.shape, levels, width=width)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=check_count("steps", steps))
    shuffle = Shuffle(len(rows.train), batch_size, seed)
    for step in range(steps):
        index = shuffle.batch(step).numpy()
        x, y = coarsened(_tensor(rows.train, index), own, levels), labels.train[index].astype(np.int64)
        optimizer.zero_grad()
        cross_entropy(network(x), torch.from_numpy(y)).backward()
        optimizer.step()
        schedule.step()
    network.eval().requires_grad_(False)
    test = coarsened(_tensor(rows.test, slice(0, len(rows.test))), own, levels)
    return network, network.accuracy(test, labels.test)


def coarsened(x: Tensor, own: int, levels: int) -> Tensor:
    """Quantise values 0..own-1 to `levels` equal bins, 0..levels-1.

    >>> import torch
    >>> from mac_policy.rows.generation.features import coarsened
    >>> coarsened(torch.tensor([0, 127, 128, 255]), 256, 2)
    tensor([0, 0, 1, 1])
    """
    return x if levels == own else x.long() * levels // own


def _tensor(rows: Rows | Tensor, index: slice | NDArray[np.int64]) -> Tensor:
    found = rows[index]
    return found if isinstance(found, Tensor) else torch.from_numpy(np.array(found))  # a copy: files may be mapped


class NormalLaw(NamedTuple):
    """The mean and the covariance of a set of features, float64."""

    mean: Tensor  # (D,)
    covariance: Tensor  # (D, D)


def normal_law(features: Tensor) -> NormalLaw:
    """Fit a normal law to features (S, D)."""
    if features.ndim != 2 or len(features) < 2:
        raise ValueError(f"features have shape {tuple(features.shape)}: they must be (S, D) of at least two rows")
    features = features.double()
    centred = features - features.mean(0)
    return NormalLaw(features.mean(0), centred.T @ centred / (len(features) - 1))


def frechet_distance(first: NormalLaw, second: NormalLaw) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)): the squared 2-Wasserstein distance of two normal laws.

    C1 C2 has the eigenvalues of the symmetric matrix C1^(1/2) C2 C1^(1/2). The trace therefore requires only square
    roots of symmetric matrices, also for singular covariances.

    >>> import torch
    >>> from mac_policy.rows.generation.features import NormalLaw, frechet_distance
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
    """The Frechet distance between two sets of images (S, N).

    The distance is biased upwards for few images: compare equal numbers of images. The distance between two halves of
    the real images is a lower bound in practice.
    """
    return frechet_distance(normal_law(network.features_of(first)), normal_law(network.features_of(second)))
