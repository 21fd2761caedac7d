"""What promises more than it holds is refused by its size, before anything is allocated."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import zipfile
import zlib

import h5py
import numpy as np
import pytest
import torch
from numpy.lib import format as npy
from safetensors.torch import load_file, save_file

import envs  # noqa: F401  (registers the tasks)
from mac_policy import TableModel
from mac_policy.common.arrays import read_npy, read_npz
from mac_policy.common.files import CheckpointError
from mac_policy.demonstrations.d4rl import read_d4rl
from mac_policy.policies.checkpoint import load_policy, save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.rows.sets.folders import read_square
from mac_policy.rows.sets.formats import read_pickle
from mac_policy.rows.sets.scaling import Scaling
from tests.demonstrations.helpers import write_d4rl
from tests.fuzz.malformed import DEEP
from tests.policies.conftest import SPACES, make
from tests.scripts.helpers import run_here

TERA = 1 << 40


@pytest.fixture(autouse=True)
def nothing_is_allocated():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "200 MB were allocated"


@pytest.fixture
def policy(tmp_path):
    return save_policy(make("mac"), tmp_path / "policy")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("width", 10**9),
        ("width", 90_000),
        ("depth", 10**9),
        ("horizon", 99_999),
        ("components", 10**9),
        ("width", 10**30),
    ],
)
def test_a_config_that_asks_for_more_than_the_weights_hold(policy, setting, value):
    path = policy / "config.json"
    config = json.loads(path.read_text())
    config["settings"][setting] = value
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=rf"config\.json: .*({setting} must be|needs more than)"):
        load_policy(policy)


@pytest.mark.parametrize("settings", [{"width": 10**9}, {"horizon": 99_999}, {"width": 100_000, "depth": 1000}])
def test_a_policy_that_no_machine_holds(settings):
    with pytest.raises(ValueError, match=r"must be a whole number of at most|needs more than|cannot be built"):
        make_policy("mac", SPACES, settings)


def test_sparse_weights(policy):
    os.truncate(policy / "model.safetensors", TERA)
    with pytest.raises(CheckpointError, match=r"model\.safetensors has 1,099,511,627,776 bytes, more than"):
        load_policy(policy)


@pytest.mark.parametrize("text", [DEEP, '{"schema": ' + DEEP + "}"])
def test_deep_json(policy, text):
    (policy / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON: it is nested too deeply"):
        load_policy(policy)


def npy_of(shape, dtype="<f8"):
    buffer = io.BytesIO()
    npy.write_array_header_2_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + bytes(800)


def test_npy_and_npz_headers(tmp_path):
    path = tmp_path / "x.npy"
    for data in (npy_of((TERA,)), npy_of((10, 10), "<U9999999"), npy_of((1 << 62, 1 << 62))):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"x\.npy: its array promises"):
            read_npy(path)
    packed = tmp_path / "x.npz"
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.writestr("a.npy", npy_of((TERA,)))
        with pytest.raises(ValueError, match=r"x\.npz: its array promises"):
            read_npz(packed)


def test_a_picture(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1_000_000, 1_000_000, 8, 2, 0, 0, 0)
    path = tmp_path / "x.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    with pytest.raises(ValueError, match=r"x\.png"):
        read_square(path, 8)


class Huge(np.ndarray):
    def __reduce__(self):
        make, arguments, state = super().__reduce__()
        return make, arguments, (state[0], (TERA,), *state[2:])


@pytest.mark.parametrize("dtype", [np.float64, object])
def test_a_pickle(tmp_path, dtype):
    path = tmp_path / "batch"
    data = pickle.dumps({"data": np.zeros(3, dtype).view(Huge)}, 2)
    path.write_bytes(data.replace(b"tests.fuzz.test_sizes\nHuge", b"numpy\nndarray"))
    with pytest.raises(ValueError, match=r"batch is truncated or no data file: .*larger than the file"):
        read_pickle(path)
    path.write_bytes(b"\x80\x04\x8e" + (TERA).to_bytes(8, "little") + b"x.")
    with pytest.raises(ValueError, match="batch is truncated or no data file"):
        read_pickle(path)


def test_chunked_hdf5_and_links_out_of_the_file(tmp_path):
    path = write_d4rl(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as file:
        file.create_dataset("infos", (TERA,), chunks=(1 << 20,), dtype=np.float64)
    with pytest.raises(ValueError, match=r"x\.hdf5: /infos promises"):
        read_d4rl(path)
    path = write_d4rl(tmp_path / "y.hdf5")
    with h5py.File(path, "a") as file:
        file["loop"] = h5py.SoftLink("/group/loop")
        file.create_group("group")["loop"] = h5py.SoftLink("/loop")
    with pytest.raises(ValueError, match=r"y\.hdf5 is truncated or no hdf5 file"):
        read_d4rl(path)
    path = write_d4rl(tmp_path / "z.hdf5")
    with h5py.File(path, "a") as file:
        file["out"] = h5py.ExternalLink("x.hdf5", "/actions")
        file["hard"] = file["/"]
    with pytest.raises(ValueError, match=r"z\.hdf5: .*out is a link to another file"):
        read_d4rl(path)


@pytest.mark.parametrize(
    "options",
    [
        ("mask_distribution", "n=3", "samples=1000000000000"),
        ("shared_autonomy", "task=fork", "operator=expert", "arms=[zeros]", "episodes=9007199254740992"),
        ("collect_demos", "task=fork", "episodes=9007199254740992"),
        ("benchmark", "benchmark=yacht", "training.batch_size=9007199254740992"),
    ],
)
def test_options_that_would_fill_the_memory_or_never_end(tmp_path, options):
    code, _, err = run_here(*options, cwd=tmp_path)
    option = options[-1].partition("=")[0].rpartition(".")[2]
    assert code == 2
    assert len(err.splitlines()) == 1
    assert f"{option} must be a whole number of at most" in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("normalizer.observation_mean", 1e30),
        ("normalizer.observation_mean", 1e3),
        ("normalizer.observation_std", 1e-30),
        ("variables.mean", -1e9),
        ("variables.std", 1e-30),
        ("widened.log_narrow", 1e30),
        ("plan_margin", -1e9),
        ("honest_ready", 7.0),
    ],
)
def test_statistics_that_no_training_finds(policy, name, value):
    tensors = load_file(policy / "model.safetensors")
    tensors[name] = torch.full_like(tensors[name], value)
    save_file(tensors, policy / "model.safetensors")  # without a checksum, as other programs write it
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*" + name.rpartition(".")[2]):
        load_policy(policy)


@pytest.mark.parametrize(
    ("key", "value"), [("location", 1e300), ("scale", 1e300), ("low", 1e300), ("high", -1e300), ("location", -7.0)]
)
def test_columns_of_a_table_that_are_none(tmp_path, key, value):
    TableModel(steps=1, width=4, random_state=0).fit({"a": np.arange(40.0), "b": np.arange(40.0) % 7}).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    next(each for each in config["columns"]["columns"] if each["name"] == "a")[key] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json.*column 'a'"):
        TableModel.load(tmp_path)


def test_a_table_whose_squares_overflow():
    with pytest.raises(ValueError, match=r"column 1 of the table holds numbers above 1e\+150"):
        Scaling.of(np.array([[1.0, 1e300], [2.0, -1e300]]))
