"""Downloads: checked, unpacked, and never half there."""

import hashlib
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mac_policy.common import download as fetching
from mac_policy.common.download import Download, fetch
from mac_policy.rows.sets.published import Published
from mac_policy.rows.sets.row_set import JoinedRows, RowSet, hold_out

QUIET = Console(quiet=True)


@pytest.fixture(autouse=True)
def online(monkeypatch, store):
    monkeypatch.delenv("HF_HUB_OFFLINE")


def archive_of(path, members):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        return path
    for name, text in members.items():
        (path.parent / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "in" / name).write_text(text)
    with tarfile.open(path, "w:gz") as archive:
        for name in members:
            archive.add(path.parent / "in" / name, name)
    return path


def md5(path):
    return "md5:" + hashlib.md5(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["all.tar.gz", "all.zip"])
def test_members_of_an_archive_land_in_the_folder_without_its_prefix(tmp_path, name):
    source = archive_of(tmp_path / name, {"data/a/x.npy": "ax", "data/b/x.npy": "bx", "data/c": "not wanted"})
    download = Download(source.as_uri(), name, md5(source), source.stat().st_size, ("a/x.npy", "b/x.npy"), "data/")
    fetch(download, tmp_path / "out", QUIET)
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"a/x.npy", "b/x.npy"}
    assert (tmp_path / "out" / "b" / "x.npy").read_text() == "bx"
    source.unlink()
    fetch(download, tmp_path / "out", QUIET)  # there already: nothing is asked of the network


def test_a_wrong_download_leaves_nothing(tmp_path):
    source = tmp_path / "file.bin"
    source.write_bytes(b"0123456789")
    for download, message in (
        (
            Download(source.as_uri(), "file.bin", "md5:" + 32 * "0"),
            r"has md5 781e5e245d69b566979b86e28d23f2c7, expected md5 0",
        ),
        (Download(source.as_uri(), "file.bin", size=11), r"has 10 bytes, expected 11: it is truncated"),
        (Download(source.as_uri(), "file.bin", members=("x",)), r"no readable x"),
        (Download((tmp_path / "nowhere").as_uri(), "file.bin"), r"could not download .*nowhere"),
    ):
        with pytest.raises(ValueError, match=message):
            fetch(download, tmp_path / "out", QUIET)
        assert not list((tmp_path / "out").iterdir())
    fetch(Download(source.as_uri(), "file.bin", md5(source)), tmp_path / "out", QUIET)
    assert (tmp_path / "out" / "file.bin").read_bytes() == b"0123456789"


def test_a_transfer_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    source = tmp_path / "file.bin"
    source.write_bytes(b"0123456789")

    class Broken:
        def __init__(self):
            self.headers = {}

        def read(self, size):
            raise ConnectionResetError("broke off")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(fetching.urllib.request, "urlopen", lambda *_, **__: Broken())
    with pytest.raises(ValueError, match="broke off"):
        fetch(Download(source.as_uri(), "file.bin"), tmp_path / "out", QUIET)
    assert not list((tmp_path / "out").iterdir())


def test_without_a_network_by_choice_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        fetch(Download("http://localhost:1/file", "file"), tmp_path, QUIET)


def test_a_set_is_looked_for_in_order_and_fetched_when_asked(tmp_path, monkeypatch):
    source = archive_of(tmp_path / "all.zip", {"letters": "abc"})
    download = Download(source.as_uri(), "all.zip", md5(source), members=("letters",))
    published = Published("tiny", files=("letters",), markers=("letters",), downloads=(download,), aliases=("alias",))
    monkeypatch.setenv("MAC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"tiny: no letters in"):
        published.locate()
    assert published.locate(download=True, console=QUIET) == tmp_path / "cache" / "tiny"
    assert published.locate() == tmp_path / "cache" / "tiny"
    (tmp_path / "mine" / "alias").mkdir(parents=True)
    (tmp_path / "mine" / "alias" / "letters").touch()
    monkeypatch.setenv("MAC_DATA", str(tmp_path / "mine"))
    assert published.locate() == tmp_path / "mine" / "alias"
    with pytest.raises(ValueError, match="absent"):  # a root that is named is the only one, and nothing is fetched
        published.locate(tmp_path / "absent", download=True, console=QUIET)


def test_rows_of_several_arrays_are_read_as_one():
    parts = [np.arange(6).reshape(3, 2), np.arange(6, 14).reshape(4, 2), np.arange(14, 16).reshape(1, 2)]
    joined, whole = JoinedRows(parts), np.concatenate(parts)
    index = np.array([7, 0, 3, 3, 2])
    np.testing.assert_array_equal(joined[index], whole[index])
    np.testing.assert_array_equal(joined[2:6], whole[2:6])
    for count in range(1, 9):
        np.testing.assert_array_equal(joined.head(count)[:], whole[:count])
    kept, held = hold_out(joined, 0.25)
    np.testing.assert_array_equal(kept[:], whole[:6])
    np.testing.assert_array_equal(held, whole[6:])


def test_limits_take_the_first_rows_and_say_so():
    rows = RowSet(
        "letters", np.ones((9, 2)), np.ones((3, 2)), np.ones((4, 2)), (2,), 2, str(Path("here")), "0", "small"
    )
    limited = rows.limited(train=5, test=100)
    assert (len(limited.train), len(limited.test), limited.full_note) == (5, 4, "small; first 5 of 9 train rows")
    assert limited.record()["train"] == 5
    with pytest.raises(ValueError, match="valid rows must be a whole number of at least 1"):
        rows.limited(valid=0)
