"""The Frechet distance against closed forms, the classes of images, and a classifier that learns them."""

import dataclasses
import gzip
import hashlib
import os

import numpy as np
import pytest
import scipy.linalg
import torch

from mac_policy.rows.generation.features import (
    FeatureNetwork,
    NormalLaw,
    coarsened,
    feature_distance,
    frechet_distance,
    normal_law,
    train_feature_network,
)
from mac_policy.rows.sets import digits, images
from mac_policy.rows.sets.digits import idx_header, load_mnist
from mac_policy.rows.sets.images import load_cifar10
from mac_policy.rows.sets.registry import load_labels, load_rows


def law(seed, dim=5, rank=5):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(dim, rank, generator=generator, dtype=torch.float64)
    return NormalLaw(torch.randn(dim, generator=generator, dtype=torch.float64), root @ root.T)


def test_the_distance_of_independent_features_is_that_of_each():
    a, b = torch.tensor([1.0, 4.0, 0.0]), torch.tensor([9.0, 4.0, 2.0])
    shift = torch.tensor([1.0, -2.0, 0.5])
    expected = float((a.sqrt() - b.sqrt()).square().sum() + shift.square().sum())
    assert frechet_distance(NormalLaw(torch.zeros(3), a.diag()), NormalLaw(shift, b.diag())) == pytest.approx(expected)


@pytest.mark.parametrize("rank", [5, 2])
def test_the_distance_of_any_normal_laws_is_the_formula_with_a_root_of_a_matrix(rank):
    first, second = law(0, rank=rank), law(1)
    product = (first.covariance @ second.covariance).numpy()
    shared = float(np.sqrt(np.clip(np.linalg.eigvals(product).real, 0, None)).sum())
    if rank == 5:
        assert shared == pytest.approx(scipy.linalg.sqrtm(product).real.trace())
    apart = float((first.mean - second.mean).square().sum())
    expected = apart + float(first.covariance.trace() + second.covariance.trace()) - 2 * shared
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(second, first) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-6)


def test_moments_are_numpys():
    features = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).double()
    found = normal_law(features)
    np.testing.assert_allclose(found.mean, features.numpy().mean(0))
    np.testing.assert_allclose(found.covariance, np.cov(features.numpy(), rowvar=False))
    with pytest.raises(ValueError, match=r"features have shape \(1, 4\)"):
        normal_law(features[:1])


def bars(count):
    """Images with a bright column at the place of their class, in noise, and the classes."""
    rng = np.random.default_rng(count)
    labels = np.arange(count, dtype=np.uint8) % 10
    found = rng.integers(0, 60, (count, 28, 28), np.uint8)
    found[np.arange(count), :, 2 * labels + 4] = 255
    return found, labels


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    counts = {digits.TRAIN: 300, digits.TEST: 50}
    monkeypatch.setattr(digits, "COUNTS", counts)
    md5 = {}
    for name, count in counts.items():
        pixels, labels = bars(count)
        content = idx_header(pixels.shape) + pixels.tobytes()
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        classes = idx_header(labels.shape) + labels.tobytes()
        (tmp_path / name.replace("images-idx3", "labels-idx1")).write_bytes(classes)
        md5[name] = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(digits, "CONTENT_MD5", md5)
    return tmp_path


def test_labels_are_split_as_the_images_are(tiny_mnist):
    rows = load_mnist(tiny_mnist)
    for part in (rows, rows.limited(train=20, test=7)):
        labels = load_labels(part)
        for split in ("train", "valid", "test"):
            shown = getattr(part, split)[:].reshape(-1, 28, 28)[:, 0, 4:24:2]
            np.testing.assert_array_equal(shown.argmax(1), getattr(labels, split))
    (tiny_mnist / digits.TEST.replace("images-idx3", "labels-idx1")).unlink()
    with pytest.raises(ValueError, match=r"has no t10k-labels-idx1-ubyte\[.gz\]"):
        load_labels(rows)


def test_labels_of_cifar_10_from_both_forms(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "IMAGES_A_BATCH", 30)
    monkeypatch.setattr(images, "BATCH_BYTES", 30 * 3073)
    for number, name in enumerate(("data_batch_1", "data_batch_2", "test_batch")):
        labels = (np.arange(30, dtype=np.uint8) + number)[:, None] % 10
        np.concatenate([labels, np.full((30, 3072), number, np.uint8)], 1).tofile(tmp_path / f"{name}.bin")
    rows = load_cifar10(tmp_path)
    labels = load_labels(rows)
    assert (len(labels.train), len(labels.valid), len(labels.test)) == (len(rows.train), len(rows.valid), 30)
    np.testing.assert_array_equal(
        np.concatenate([labels.train, labels.valid]), (np.arange(60) % 30 + np.arange(60) // 30) % 10
    )
    np.testing.assert_array_equal(labels.test, (np.arange(30) + 2) % 10)


def test_sets_without_classes_are_refused(tiny_mnist):
    with pytest.raises(ValueError, match="unknown data set with classes 'binarized_mnist'"):
        load_labels(dataclasses.replace(load_mnist(tiny_mnist), name="binarized_mnist"))


def test_a_network_learns_the_classes_and_tells_changed_images(tiny_mnist):
    rows = load_mnist(tiny_mnist)
    network, accuracy = train_feature_network(rows, steps=80, batch_size=32, width=4)
    again, _ = train_feature_network(rows, steps=3, batch_size=32, width=4)
    other, _ = train_feature_network(rows, steps=3, batch_size=32, width=4)
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), other.state_dict().values(), strict=True))
    assert accuracy > 0.3  # chance is 0.1
    real = torch.from_numpy(rows.train[:].copy())
    first, second = real[:140], real[140:280]
    noise = torch.randint(0, 128, second.shape, generator=torch.Generator().manual_seed(0))
    halves = feature_distance(network, first, second)
    assert halves < 0.2 * feature_distance(network, first, (second // 2 + noise).byte())
    assert feature_distance(network, real, real) == pytest.approx(0, abs=1e-9)


def test_coarsened_images_have_equal_bins():
    values = coarsened(torch.arange(256), 256, 4)
    assert values.bincount().tolist() == [64] * 4
    network = FeatureNetwork((1, 8, 8), 4)
    assert network(torch.full((2, 64), 3, dtype=torch.uint8)).shape == (2, 10)
    assert network.features(torch.zeros(3, 64)).shape == (3, 64)


@pytest.mark.parametrize(("name", "first"), [("mnist", [7, 2, 1, 0, 4]), ("cifar10", [3, 8, 8, 0, 6])])
def test_the_published_labels(name, first):
    root = os.environ.get("MAC_DATA", "")
    if not root:
        pytest.skip("MAC_DATA does not name a folder with the real data sets")
    try:
        labels = load_labels(load_rows(name, root))
    except ValueError as error:
        if "How to get it" in str(error) or "[.gz]" in str(error):
            pytest.skip(f"{root} has no {name} with labels")
        raise
    assert labels.test[:5].tolist() == first
    assert np.bincount(labels.train, minlength=10).min() > 0.08 * len(labels.train)
