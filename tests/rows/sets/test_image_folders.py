"""Folders of image files: their splits, their pixels, and what is refused."""

import imageio.v3 as imageio
import numpy as np
import pytest

from mac_policy.rows.sets.folders import ImageFiles, image_files, last_cut_off, load_folder, read_square, splits
from mac_policy.rows.sets.registry import load_rows


def write(path, height=70, width=64, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    imageio.imwrite(path, np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


@pytest.fixture
def faces(tmp_path):
    for number in range(20):
        write(tmp_path / "celeba64" / f"{number:05d}.png", seed=number)
    return tmp_path


def test_a_flat_folder_is_split_and_read_when_asked(faces):
    rows = load_rows("celeba64", faces)
    assert (len(rows.train), len(rows.valid), len(rows.test)) == (18, 1, 1)
    assert (rows.shape, rows.levels, rows.num_variables) == ((3, 64, 64), 256, 12288)
    pixels = rows.train[np.array([3, 0])]
    assert pixels.shape == (2, 12288)
    assert pixels.dtype == np.uint8
    whole = imageio.imread(rows.train.paths[3])
    np.testing.assert_array_equal(pixels[0].reshape(3, 64, 64), whole[3:67].transpose(2, 0, 1))  # the middle square
    np.testing.assert_array_equal(rows.train[:2][0], pixels[1])
    few = rows.limited(train=5)
    assert len(few.train) == 5
    assert few.full_note == "first 5 of 18 train rows"


def test_folders_of_classes_and_a_validation_folder_are_imagenets_splits(tmp_path):
    for number in range(10):
        write(tmp_path / "imagenet64" / "train" / f"n{number % 2}" / f"{number}.JPEG", seed=number)
    for number in range(3):
        write(tmp_path / "imagenet64" / "val" / f"{number}.JPEG", seed=50 + number)
    rows = load_folder("imagenet64", tmp_path)
    assert (len(rows.train), len(rows.valid), len(rows.test)) == (9, 1, 3)
    assert all(path.parent.name == "val" for path in rows.test.paths)


def classes_of(paths):
    return {path.parent.name for path in paths}


def test_what_is_cut_off_a_folder_of_classes_and_the_first_few_are_of_all_classes(tmp_path):
    for number in range(400):
        path = tmp_path / f"n{number // 100}" / f"{number}.jpeg"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    flat = splits(tmp_path)
    assert [len(part) for part in flat] == [360, 20, 20]
    assert all(len(classes_of(part)) == 4 for part in flat)
    train, valid = last_cut_off(image_files(tmp_path), 0.1)
    assert len(classes_of(valid)) == len(classes_of(train[:20])) == 4


def test_a_further_file_moves_no_other_and_where_the_folder_lies_does_not_matter(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        for number in range(50):
            (tmp_path / name / f"{number}.png").touch()
    before = [path.name for path in image_files(tmp_path / "here")]
    assert before == [path.name for path in image_files(tmp_path / "there")] != sorted(before)
    (tmp_path / "here" / "50.png").touch()
    assert [path.name for path in image_files(tmp_path / "here") if path.name != "50.png"] == before


def test_three_folders_are_three_splits(tmp_path):
    for split, count in {"train": 4, "valid": 2, "test": 3}.items():
        for number in range(count):
            write(tmp_path / "celeba64" / split / f"{number}.png", seed=number)
    rows = load_folder("celeba64", tmp_path)
    assert (len(rows.train), len(rows.valid), len(rows.test)) == (4, 2, 3)


def test_shrinking_averages(tmp_path):
    image = np.zeros((128, 128, 3), np.uint8)
    image[:, 1::2] = 200
    imageio.imwrite(tmp_path / "stripes.png", image)
    assert set(np.unique(read_square(tmp_path / "stripes.png", 64))) == {100}


def test_the_fingerprint_is_of_the_files(faces):
    first = load_folder("celeba64", faces).sha256
    write(faces / "celeba64" / "00003.png", height=90, seed=99)
    assert load_folder("celeba64", faces).sha256 != first


def test_what_is_no_image_folder_is_refused_with_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"(?s)celeba64: no image files, .*How to get it"):
        load_folder("celeba64", tmp_path)
    monkeypatch.setenv("MAC_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="How to get it"):
        load_folder("celeba64", download=True)  # it is published nowhere that can be fetched from
    write(tmp_path / "celeba64" / "1.png")
    with pytest.raises(ValueError, match=r"has 1 image files .* at least 3"):
        load_folder("celeba64", tmp_path)
    (tmp_path / "celeba64" / "2.png").write_text("no image")
    with pytest.raises(ValueError, match=r"2\.png is truncated or no readable image"):
        ImageFiles([tmp_path / "celeba64" / "2.png"])[:1]
