"""Image sets in the forms they are published in, whole, in part, damaged and swapped."""

import gzip
import hashlib
import pickle
import re

import numpy as np
import pytest

from mac_policy.rows.sets import digits, images
from mac_policy.rows.sets.digits import idx_header, load_binarized_mnist, load_fashion_mnist, load_mnist
from mac_policy.rows.sets.formats import mapped_member
from mac_policy.rows.sets.images import load_cifar10, load_imagenet32

IMAGES = 40  # in a batch of these tests


def pixels(count, width=3072, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, width), np.uint8)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(images, "IMAGES_A_BATCH", IMAGES)
    monkeypatch.setattr(images, "BATCH_BYTES", IMAGES * 3073)


def binary_batch(path, data):
    labels = np.arange(len(data), dtype=np.uint8)[:, None] % 10
    np.concatenate([labels, data], 1).tofile(path)


def python_batch(path, data):
    path.write_bytes(pickle.dumps({"data": data, "labels": [0] * len(data), "batch_label": "one"}, protocol=2))


def cifar(folder, write, suffix, batches):
    for number in range(batches):
        write(folder / f"data_batch_{number + 1}{suffix}", pixels(IMAGES, seed=number))
    write(folder / f"test_batch{suffix}", pixels(IMAGES, seed=9))


def test_binary_and_python_batches_hold_the_same_images(tmp_path, small):
    found = []
    for name, write, suffix in (("bin", binary_batch, ".bin"), ("py", python_batch, "")):
        (tmp_path / name).mkdir()
        cifar(tmp_path / name, write, suffix, 5)
        found.append(load_cifar10(tmp_path / name))
    binary, python = found
    index = np.array([150, 3, 41])
    np.testing.assert_array_equal(binary.train[index], python.train[index])
    np.testing.assert_array_equal(binary.train[index[:1]], pixels(IMAGES, seed=3)[[30]])
    np.testing.assert_array_equal(binary.test[:], pixels(IMAGES, seed=9))
    assert (len(binary.train), len(binary.valid), binary.note) == (196, 4, "")
    assert binary.shape == (3, 32, 32)


def test_fewer_batches_are_a_subset_that_says_so(tmp_path, small):
    cifar(tmp_path, binary_batch, ".bin", 2)
    rows = load_cifar10(tmp_path)
    assert rows.note == "2 of 5 training batches"
    assert len(rows.train) + len(rows.valid) == 2 * IMAGES


def test_a_truncated_binary_batch_is_refused_with_the_expected_size(tmp_path, small):
    cifar(tmp_path, binary_batch, ".bin", 1)
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_1.bin has 122,919 bytes, expected 122,920"):
        load_cifar10(tmp_path)


def test_labels_that_no_cifar_10_file_has(tmp_path, small):
    cifar(tmp_path, binary_batch, ".bin", 1)
    np.full((IMAGES, 3073), 77, np.uint8).tofile(tmp_path / "data_batch_1.bin")
    with pytest.raises(ValueError, match="labels above 9"):
        load_cifar10(tmp_path)


def test_a_training_batch_is_no_test_batch(tmp_path, small):
    cifar(tmp_path, binary_batch, ".bin", 2)
    (tmp_path / "test_batch.bin").write_bytes((tmp_path / "data_batch_1.bin").read_bytes())
    with pytest.raises(ValueError, match=r"test_batch.bin is a copy of data_batch_1.bin"):
        load_cifar10(tmp_path)


def test_batches_of_other_numbers_or_of_another_form_than_the_test_batch_are_refused(tmp_path, small):
    cifar(tmp_path, binary_batch, ".bin", 1)
    (tmp_path / "test_batch.bin").unlink()
    python_batch(tmp_path / "test_batch", pixels(IMAGES, seed=9))
    with pytest.raises(ValueError, match=r"has data_batch_1.bin but no test_batch.bin: both must be of one form"):
        load_cifar10(tmp_path)
    (tmp_path / "data_batch_1.bin").rename(tmp_path / "data_batch_7.bin")
    with pytest.raises(ValueError, match=r"no training batch: expected data_batch_1.bin ... data_batch_5.bin"):
        load_cifar10(tmp_path)
    (tmp_path / "data_batch_7.bin").rename(tmp_path / "data_batch_1.html")
    with pytest.raises(ValueError, match=r"has no training batch, expected data_batch_1 ... data_batch_5"):
        load_cifar10(tmp_path)


def test_a_pickle_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("ran",))

    for name in ("data_batch_1", "test_batch"):
        (tmp_path / name).write_bytes(pickle.dumps({"data": Evil()}))
    with pytest.raises(ValueError, match=r"builtins.print is not among what such a file may hold"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize("damage", [lambda b: b[:-50], lambda b: b"no pickle", lambda b: pickle.dumps([1])])
def test_a_damaged_python_batch_is_refused(tmp_path, damage):
    for name in ("data_batch_1", "test_batch"):
        python_batch(tmp_path / name, pixels(10))
    path = tmp_path / "data_batch_1"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"data_batch_1 (is truncated|holds no)"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_imagenet32_from_npz_batches(tmp_path, save):
    for number in (1, 2, 10):
        save(tmp_path / f"train_data_batch_{number}.npz", data=pixels(25, seed=number), labels=np.arange(25))
    save(tmp_path / "val_data.npz", data=pixels(5, seed=99), labels=np.arange(5))
    rows = load_imagenet32(tmp_path)
    assert len(rows.train) + len(rows.valid) == 75
    np.testing.assert_array_equal(rows.train[np.array([0, 30])], [pixels(25, seed=1)[0], pixels(25, seed=2)[5]])
    np.testing.assert_array_equal(rows.valid[:][-1], pixels(25, seed=10)[-1])
    assert rows.note == "75 of 1,281,167 training images; 5 of 50,000 validation images"
    path = tmp_path / "train_data_batch_1.npz"
    assert isinstance(mapped_member(path, "data"), np.memmap) == (save is np.savez)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(ValueError, match=r"train_data_batch_1.npz is truncated or no npz file"):
        load_imagenet32(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train_data_batch_1", "has both train_data_batch_1 and train_data_batch_1.npz"),
        (
            "train_data_batch_11.npz",
            "train_data_batch_11.npz is no training batch: expected train_data_batch_1.npz ...",
        ),
        ("train_data_batch_0.npz", "train_data_batch_0.npz is no training batch"),
        ("train_data_batch_1 (copy).npz", "is no training batch"),
        ("train_data_batch_2.npz", "train_data_batch_2.npz is a copy of train_data_batch_1.npz"),
        ("val_data", "has 2 files val_data.npz or val_data, expected one"),
    ],
)
def test_imagenet32_is_made_of_one_file_for_each_number(tmp_path, name, message):
    np.savez(tmp_path / "train_data_batch_1.npz", data=pixels(5))
    np.savez(tmp_path / "val_data.npz", data=pixels(5, seed=1))
    assert load_imagenet32(tmp_path).num_variables == 3072
    if name.endswith(".npz"):
        (tmp_path / name).write_bytes((tmp_path / "train_data_batch_1.npz").read_bytes())
    else:
        python_batch(tmp_path / name, pixels(5))
    with pytest.raises(ValueError, match=re.escape(message)):
        load_imagenet32(tmp_path)


def test_npz_files_without_the_array_or_of_another_shape_are_refused(tmp_path):
    np.savez(tmp_path / "train_data_batch_1.npz", images=pixels(5))
    np.savez(tmp_path / "val_data.npz", data=pixels(5))
    with pytest.raises(ValueError, match=r"no array 'data'; it has images"):
        load_imagenet32(tmp_path)
    np.savez(tmp_path / "train_data_batch_1.npz", data=pixels(5, width=100))
    with pytest.raises(ValueError, match=r"shape \(5, 100\), expected uint8 'data' of shape \(images, 3072\)"):
        load_imagenet32(tmp_path)


# ---- idx files ----


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    """Sixty and ten images in a folder mnist, with a fashion-mnist beside it."""
    counts = {digits.TRAIN: 60, digits.TEST: 10}
    monkeypatch.setattr(digits, "COUNTS", counts)
    md5 = {}
    for folder, seed in (("mnist", 0), ("fashion-mnist", 5)):
        (tmp_path / folder).mkdir()
        for name, count in counts.items():
            content = idx_header((count, 28, 28)) + pixels(count, 784, seed).tobytes()
            (tmp_path / folder / f"{name}.gz").write_bytes(gzip.compress(content))
            md5.setdefault(name, hashlib.md5(content).hexdigest())
    monkeypatch.setattr(digits, "CONTENT_MD5", md5)
    return tmp_path


def test_idx_files_plain_and_compressed(tiny_mnist):
    rows = load_mnist(tiny_mnist)
    np.testing.assert_array_equal(rows.train[:], pixels(60, 784)[:59])
    assert (len(rows.valid), len(rows.test), rows.shape, rows.note) == (1, 10, (1, 28, 28), "")
    for path in (tiny_mnist / "mnist").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(load_mnist(tiny_mnist).train[:], rows.train[:])


def test_fashion_mnist_is_told_from_mnist(tiny_mnist):
    np.testing.assert_array_equal(load_fashion_mnist(tiny_mnist).test[:], pixels(10, 784, 5))
    (tiny_mnist / "fashion-mnist").rename(tiny_mnist / "other")
    (tiny_mnist / "mnist").rename(tiny_mnist / "fashion-mnist")
    with pytest.raises(ValueError, match="holds MNIST's images, not those of fashion-mnist"):
        load_fashion_mnist(tiny_mnist)
    (tiny_mnist / "other").rename(tiny_mnist / "mnist")
    with pytest.raises(ValueError, match=r"is not MNIST's: unpacked its md5 is \w+, expected \w+"):
        load_mnist(tiny_mnist)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: gzip.compress(gzip.decompress(b)[:-1]), "has 7,855 bytes unpacked, expected 7,856"),
        (lambda b: gzip.compress(b"\0" * 7856), "is no idx file of shape .* expected 00 00 08 03"),
        (lambda b: b[:-20], "is truncated or no idx file"),
        (lambda b: b"plain", "is truncated or no idx file"),
    ],
)
def test_damaged_idx_files_are_refused(tiny_mnist, damage, message):
    path = tiny_mnist / "mnist" / f"{digits.TEST}.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load_mnist(tiny_mnist)


@pytest.fixture
def tiny_binary(monkeypatch):
    monkeypatch.setattr(digits, "SPLITS", {"train": 6, "valid": 3, "test": 3})
    counts = {"train": 6, "valid": 3, "test": 3}
    return {split: pixels(count, 784, seed) & 1 for seed, (split, count) in enumerate(counts.items())}


def test_binarised_mnist_from_its_lines_and_from_npz(tmp_path, tiny_binary):
    for split, values in tiny_binary.items():
        lines = [" ".join(map(str, row)) for row in values.tolist()]
        (tmp_path / f"binarized_mnist_{split}.amat").write_text("\n".join(lines) + "\n")
    rows = load_binarized_mnist(tmp_path)
    np.testing.assert_array_equal(rows.train, tiny_binary["train"])
    assert sorted(map(bytes, rows.test)) == sorted(map(bytes, tiny_binary["test"]))
    (tmp_path / "binarized_mnist_valid.amat").write_text("0 1 1\n")
    with pytest.raises(ValueError, match=r"valid of shape \(0, 784\), expected \(3, 784\): is it truncated"):
        load_binarized_mnist(tmp_path)
    np.savez_compressed(tmp_path / "binarized_mnist.npz", **tiny_binary)
    assert load_binarized_mnist(tmp_path).levels == 2
    np.savez(tmp_path / "binarized_mnist.npz", **{**tiny_binary, "test": tiny_binary["test"] * 9})
    with pytest.raises(ValueError, match="has 9 in test: a binarised"):
        load_binarized_mnist(tmp_path)
    np.savez(tmp_path / "binarized_mnist.npz", **{**tiny_binary, "train": tiny_binary["train"] * 0.5})
    with pytest.raises(ValueError, match=r"has 0.5 in train: a binarised image has 0 and 1 alone"):
        load_binarized_mnist(tmp_path)
    np.savez(tmp_path / "binarized_mnist.npz", **{split: values * 1.0 for split, values in tiny_binary.items()})
    assert load_binarized_mnist(tmp_path).train.dtype == np.uint8
