"""No test of this folder reads or writes a store of the user's, nor asks the network."""

import pytest


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    folder = tmp_path / "store"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("MAC_DATA", raising=False)
    return folder
