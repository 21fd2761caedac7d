"""The real data sets, where MAC_DATA names their folder."""

import os
from pathlib import Path

import numpy as np
import pytest

from mac_policy.rows.sets.registry import load_rows
from mac_policy.rows.sets.text8 import decode

DATA = os.environ.get("MAC_DATA", "")
SHAPES = {
    "mnist": ((59_000, 1_000, 10_000), (1, 28, 28)),
    "binarized_mnist": ((50_000, 10_000, 10_000), (1, 28, 28)),
    "energy": ((616, 76, 76), (9,)),
    "yacht": ((248, 30, 30), (7,)),
    "concrete": ((824, 103, 103), (9,)),
}


def load(name, **options):
    if not DATA:
        pytest.skip("MAC_DATA does not name a folder with the real data sets")
    try:
        return load_rows(name, Path(DATA), **options)
    except ValueError as error:
        if "How to get it" in str(error):
            pytest.skip(f"{DATA} has no {name}")
        raise


@pytest.mark.parametrize("name", SHAPES)
def test_the_published_counts(name):
    rows = load(name)
    counts, shape = SHAPES[name]
    assert (len(rows.train), len(rows.valid), len(rows.test)) == counts
    assert rows.shape == shape


def test_the_text_is_text():
    rows = load("text8", chunk=250)
    text = decode(rows.train[0])
    assert text.startswith(" anarchism originated as a term of abuse")
    assert rows.num_variables == 250


def test_the_images_are_images():
    rows = load("cifar10")
    image = rows.train[np.array([0])][0].reshape(3, 32, 32).astype(int)
    assert np.abs(np.diff(image, axis=2)).mean() < 30  # neighbours are alike: the layout is right
    assert np.abs(image[0] - image[1]).mean() < np.abs(image[0] - image[1].T).mean()
    assert len(rows.test) == 10_000


def test_the_first_binarised_test_digits_are_of_all_kinds():
    """The file has them sorted: noughts, which have much ink, and then ones, which have little."""
    ink = load("binarized_mnist").test[:1000].sum(1).reshape(10, 100).mean(1)
    assert ink.max() - ink.min() < 25
