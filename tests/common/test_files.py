"""Files of tensors: the same bytes every time, and every changed bit found."""

import subprocess
import sys

import pytest
import torch

from mac_policy.common.files import CheckpointError, named, read_tensors, write_bytes, write_tensors

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([True, False]), "none": torch.zeros(0)}
NOTES = {"facts": '{"a": 1, "b": "ü"}', "seconds": "1.5", "z": "\\ \" '"}


def test_what_is_written_is_read(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, NOTES)
    tensors, notes = read_tensors(tmp_path / "x")
    assert notes == NOTES
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())


def test_every_changed_bit_is_found(tmp_path):
    path = tmp_path / "x"
    write_tensors(path, TENSORS, NOTES)
    data = path.read_bytes()
    kept = []
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            tensors, _ = read_tensors(path)
        except CheckpointError:
            continue
        kept.append(place)
        assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())
    assert set(kept) <= set(range(data.index(b'"crc32"'), data.index(b'"crc32"') + 18))  # the checksum itself


def test_the_bytes_are_the_same_in_every_process(tmp_path):
    code = (
        "from tests.common.test_files import *; from pathlib import Path; import sys;"
        "write_tensors(Path(sys.argv[1]), TENSORS, NOTES)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=True)
    write_tensors(tmp_path / "y", TENSORS, NOTES)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_errors_of_the_system_name_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/x"):
        write_bytes(tmp_path / "nowhere" / "x", b"")
    assert "x.npz" in str(named(OSError("full"), tmp_path / "x.npz"))
