import shutil
import socket
import sys
import time
import types
from contextlib import closing

import pytest

from mac_policy.common.digest import file_sha256
from mac_policy.common.download import CONNECT_SECONDS, Unavailable, within
from mac_policy.demonstrations import OfficialFile, minari_store, read_minari, write_minari
from mac_policy.demonstrations.d4rl import fetch_d4rl, official_url
from mac_policy.demonstrations.minari_store import fetch_minari, local_ids
from tests.demonstrations.helpers import make_demonstrations, write_d4rl


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A remote in a folder, and a way to make it fail."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(minari_store, "_reach", lambda url: None)
    write_minari(make_demonstrations(), "lab/published-v0")
    shelf = tmp_path / "shelf"
    shutil.move(tmp_path / "store", shelf)

    class Storage:
        fails = False

        def get_dataset_metadata(self, dataset_id):
            if not (shelf / dataset_id).is_dir():
                raise FileNotFoundError(f"404 {dataset_id}")

        def download_dataset(self, dataset_id, path):
            (path / dataset_id / "data").mkdir(parents=True)
            shutil.copy(shelf / dataset_id / "data" / "metadata.json", path / dataset_id / "data")
            if self.fails:
                raise ConnectionError("cut off")
            shutil.copytree(shelf / dataset_id, path / dataset_id, dirs_exist_ok=True)

    storage = Storage()
    monkeypatch.setattr("minari.storage.remotes.get_cloud_storage", lambda: storage)
    return storage


def test_a_published_data_set_lands_in_the_store(published):
    folder = fetch_minari("lab/published-v0")
    assert read_minari("lab/published-v0").source.location == str(folder)


def test_a_data_set_that_is_not_published_is_unavailable(published):
    with pytest.raises(Unavailable, match="404 lab/other-v0"):
        fetch_minari("lab/other-v0")


def test_a_download_that_breaks_leaves_nothing(published, store):
    published.fails = True
    with pytest.raises(Unavailable, match="downloading lab/published-v0 failed: ConnectionError: cut off"):
        fetch_minari("lab/published-v0")
    assert local_ids() == []
    assert list(store.iterdir()) == []


def test_a_server_that_never_answers_is_left_in_time(monkeypatch):
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        start = time.monotonic()
        with pytest.raises(Unavailable, match=r"no answer within 0\.5 s|timed out"):
            fetch_minari("D4RL/kitchen/mixed-v2", seconds=0.5)
        assert time.monotonic() - start < 5


def test_a_refused_connection_is_unavailable_at_once(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    start = time.monotonic()
    with pytest.raises(Unavailable, match="refused"):
        fetch_minari("D4RL/kitchen/mixed-v2")
    assert time.monotonic() - start < 5


def test_no_look_up_is_made_when_the_user_is_offline():
    with pytest.raises(Unavailable, match="HF_HUB_OFFLINE"):
        fetch_minari("D4RL/kitchen/mixed-v2")


def test_the_whole_fall_through_stays_below_twenty_seconds():
    assert minari_store.LOOK_UP_SECONDS <= 15
    assert CONNECT_SECONDS <= 15


def test_a_call_that_hangs_is_left_behind():
    start = time.monotonic()
    with pytest.raises(Unavailable, match=r"no answer within 0\.1 s"):
        within(0.1, lambda: time.sleep(3))
    assert time.monotonic() - start < 1


@pytest.fixture
def official(tmp_path):
    file = write_d4rl(tmp_path / "published.hdf5")
    return OfficialFile("made-up-v0", "made_up.hdf5", file.as_uri(), file_sha256(file))


def test_the_official_file_is_downloaded_once_and_checked(official, tmp_path):
    path = fetch_d4rl(official)
    assert path == tmp_path / "d4rl" / "made_up.hdf5"
    (tmp_path / "published.hdf5").unlink()
    assert fetch_d4rl(official) == path


def test_a_file_with_other_bytes_is_refused_and_not_kept(official, tmp_path):
    write_d4rl(tmp_path / "published.hdf5", (7, 7))
    with pytest.raises(ValueError, match=f"expected sha256 {official.sha256}"):
        fetch_d4rl(official)
    assert list((tmp_path / "d4rl").iterdir()) == []


def test_a_damaged_copy_is_said(official):
    path = fetch_d4rl(official)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is not the official made-up-v0 file"):
        fetch_d4rl(official)


def test_the_registry_of_d4rl_is_used_where_it_is_installed(official, monkeypatch):
    package, infos = types.ModuleType("d4rl"), types.ModuleType("d4rl.infos")
    infos.DATASET_URLS = {"made-up-v0": "http://example.org/other.hdf5"}
    package.__spec__ = types.SimpleNamespace(name="d4rl")
    monkeypatch.setitem(sys.modules, "d4rl", package)
    monkeypatch.setitem(sys.modules, "d4rl.infos", infos)
    assert official_url(official) == "http://example.org/other.hdf5"
    del infos.DATASET_URLS
    assert official_url(official) == official.url


def test_d4rl_is_not_needed(official):
    assert "d4rl" not in sys.modules
    assert official_url(official) == official.url
