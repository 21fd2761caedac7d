"""text8: its splits, its alphabet, and files that are not what their name says."""

import gzip
import hashlib
import zipfile

import numpy as np
import pytest

from mac_policy.rows.sets import text8
from mac_policy.rows.sets.text8 import decode, encode, encode_bytes, load_text8, split_sizes


def prefix(folder, text, suffix="", promised=None):
    path = folder / f"text8_first_{promised or len(text)}{suffix}"
    content = text.encode()
    path.write_bytes(gzip.compress(content) if suffix == ".gz" else content)
    return path


@pytest.fixture
def words():
    rng = np.random.default_rng(0)
    return "".join(rng.choice(list(" abcdefghijklmnopqrstuvwxyz"), 4000))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_prefix_is_split_as_the_whole_is_and_says_so(tmp_path, words, suffix):
    prefix(tmp_path, words, suffix)
    rows = load_text8(tmp_path, chunk=50)
    assert (len(rows.train), len(rows.valid), len(rows.test)) == (72, 4, 4)
    assert "".join(decode(row) for row in rows.train) == words[:3600]
    assert "".join(decode(row) for row in rows.valid) == words[3600:3800]
    assert "".join(decode(row) for row in rows.test) == words[3800:]
    assert rows.note == "a prefix of 4,000 characters"
    assert (rows.shape, rows.levels) == ((50,), 27)


def test_what_is_left_after_the_last_whole_chunk_is_dropped(tmp_path, words):
    prefix(tmp_path, words)
    assert [len(rows) for rows in (load_text8(tmp_path, chunk=70).train, load_text8(tmp_path, chunk=70).test)] == [
        51,
        2,
    ]


def whole(folder, monkeypatch, words, name):
    monkeypatch.setattr(text8, "CHARACTERS", len(words))
    monkeypatch.setattr(text8, "CONTENT_MD5", hashlib.md5(words.encode()).hexdigest())
    path = folder / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("text8", words)
    else:
        path.write_bytes(gzip.compress(words.encode()) if name.endswith(".gz") else words.encode())
    return path


@pytest.mark.parametrize("name", ["text8", "text8.gz", "text8.zip"])
def test_the_whole_text_in_each_of_its_forms(tmp_path, monkeypatch, words, name):
    whole(tmp_path, monkeypatch, words, name)
    prefix(tmp_path, words[:1000])  # the whole goes before a prefix
    rows = load_text8(tmp_path, chunk=50)
    assert (len(rows.train), rows.note) == (72, "")


def test_the_official_split():
    assert split_sizes(100_000_000) == (90_000_000, 5_000_000, 5_000_000)


def test_characters_outside_the_alphabet_are_counted_and_named(tmp_path, words):
    strange = "A" + words[:2000] + "A!\n" + words[2000:]
    prefix(tmp_path, strange)
    with pytest.raises(
        ValueError, match=r"4 characters outside a-z and space, 3 different ones: b'A' 2 times.*position 0$"
    ):
        load_text8(tmp_path, chunk=50)
    with pytest.raises(ValueError, match=r"has 2 characters outside a-z and space: '\?', 'é'"):
        encode("wasé?")


def test_counting_goes_over_blocks(monkeypatch):
    monkeypatch.setattr(text8, "BLOCK", 7)
    with pytest.raises(ValueError, match=r" 3 characters .* b'-' 3 times; the first is at position 5"):
        encode_bytes(np.frombuffer(b"abcde-fghi-jklm-", np.uint8))
    assert decode(encode_bytes(np.frombuffer(b"the quick brown fox", np.uint8))) == "the quick brown fox"


def test_files_that_are_not_what_their_name_says(tmp_path, monkeypatch, words):
    path = prefix(tmp_path, words, promised=5000)
    with pytest.raises(ValueError, match=r"has 4,000 characters, expected 5,000, as its name says"):
        load_text8(tmp_path, chunk=50)
    path.unlink()
    path = prefix(tmp_path, words, ".gz")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"truncated or no text of 4,000"):
        load_text8(tmp_path, chunk=50)
    path.unlink()
    path = whole(tmp_path, monkeypatch, words, "text8")
    path.write_text(words[:-1])
    with pytest.raises(ValueError, match=r"has 3,999 characters, expected 4,000 \(a prefix of n characters is to be"):
        load_text8(tmp_path, chunk=50)
    path.write_text(words[::-1])
    with pytest.raises(ValueError, match="is not text8: the md5"):
        load_text8(tmp_path, chunk=50)


def test_a_chunk_must_fit_into_every_split(tmp_path, words):
    prefix(tmp_path, words)
    with pytest.raises(ValueError, match="too few for a chunk of 201"):
        load_text8(tmp_path, chunk=201)
    with pytest.raises(ValueError, match="chunk must be a whole number of at least 1, got 0"):
        load_text8(tmp_path, chunk=0)
