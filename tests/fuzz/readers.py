"""Every reader of the package: a well-formed file, how it is read, and whether what was read can be used."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
from rich.console import Console

from mac_policy.common import download
from mac_policy.demonstrations import Demonstrations, Episode, read_minari, write_minari
from mac_policy.demonstrations.collect import episode_file, load_episode, save_episode
from mac_policy.demonstrations.d4rl import read_d4rl
from mac_policy.evaluation.episode_store import EpisodeRecord, EpisodeStore
from mac_policy.operators.from_file import algorithm_of, read_recordings
from mac_policy.policies.checkpoint import SavedPolicy, load_policy, save_policy
from mac_policy.policies.fit import Trainer
from mac_policy.rows import checkpoint
from mac_policy.rows.model import RowModel
from mac_policy.rows.sets import digits, formats, images, own, tables, text8, uci
from mac_policy.rows.sets.folders import read_square
from mac_policy.rows.sets.registry import _cifar10_batch
from mac_policy.rows.spec import build
from mac_policy.rows.table_model import TableModel
from mac_policy.training.fabric import Fabric
from tests.demonstrations.helpers import make_demonstrations, make_episode, write_d4rl
from tests.fuzz import malformed
from tests.policies.conftest import OBSERVATION, make
from tests.rows import helpers as rows
from tests.training.helpers import demonstrations, quickly, small

Changes = Callable[..., Any]
FLAT = np.random.default_rng(0)


class Reader(NamedTuple):
    """make: writes the well-formed files into a folder; read: reads them; usable: whether what was read is right or,
    where the file itself says something else, at least can be used; changes: to each file, in which ways."""

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    usable: Callable[[Any], bool]
    changes: dict[str, Sequence[Changes]]


BYTES = (malformed.of_bytes, malformed.of_head)
JSON = (malformed.of_bytes, malformed.of_json)
TENSORS = (malformed.of_bytes, malformed.of_head, malformed.of_tensors)


# ---- policies and models ----


def read_policy(folder: Path) -> Any:
    saved = SavedPolicy.of(folder)
    saved.identity()
    return load_policy(folder)


def acts(policy: Any) -> bool:
    space = policy.spaces.action
    for mask in ([False] * 3, [True, False, False]):
        observations = FLAT.normal(2, 1, (4, OBSERVATION)).astype(np.float32)
        action = policy.act(observations, np.tile(space.low, (4, 1)), np.array(mask), deterministic=True)
        if not (np.isfinite(action).all() and (action >= space.low).all() and (action <= space.high).all()):
            return False
    return True


def make_arm(folder: Path) -> None:
    spec = rows.spec("mac", {"kind": "mixture", "num_components": 2}, rows=rows.numbers())
    checkpoint.save(build(spec), spec, folder, {"name": "numbers"}, {"finished": True}, {"seed": 0})


def answers(found: Any) -> bool:
    model: RowModel = found[0]
    x = torch.randn(3, model.num_variables)
    query = torch.ones(3, model.num_variables, dtype=torch.bool)
    found = model.log_prob(x, query=query, given=~query, generator=torch.Generator())
    return all(bool(torch.isfinite(each).all()) for each in found.values())


def make_table(folder: Path) -> None:
    size = np.random.default_rng(0).normal(100, 20, 60)
    table = {"size": size, "price": 3 * size + 1, "garden": np.where(size > 100, "yes", "no")}
    TableModel(steps=2, members=2, width=4, depth=1, num_components=2).fit(table).save(folder)


def draws(model: TableModel) -> bool:
    found = model.sample(n_samples=5)
    columns = found.values() if isinstance(found, dict) else [np.asarray(found)]
    return all(len(column) == 5 and np.isfinite(column).all() for column in columns if column.dtype.kind in "fi")


# ---- a training ----

SETTINGS = quickly(steps=6, validations=3, ema=0.5, weights="best", save_seconds=1e9)
DEMOS = demonstrations(4)


def trainer(folder: Path) -> Trainer:
    return Trainer(small("bc", 0), DEMOS, SETTINGS, folder, seed=0, fabric=Fabric(), quiet=True)


def make_run(folder: Path) -> None:
    """A run that was killed after its first validation and its fourth step."""
    run = trainer(folder)
    folder.mkdir(parents=True, exist_ok=True)

    class Quiet:
        def note(self, *_: Any) -> None: ...

        def rate(self) -> float:
            return 1.0

    for step in range(4):
        run.advance()
        if step == 1:
            run._measure(2, Quiet())  # type: ignore[arg-type]
    run.save()


def finish(folder: Path) -> Any:
    run = trainer(folder)
    run.go()
    return {name: value.clone() for name, value in load_policy(folder).state_dict().items()}


def same_as_whole(found: dict[str, torch.Tensor], whole: dict[str, torch.Tensor]) -> bool:
    return found.keys() == whole.keys() and all(torch.equal(found[name], whole[name]) for name in whole)


def same_as_uninterrupted(found: dict[str, torch.Tensor]) -> bool:
    if not WHOLE:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            WHOLE.update(finish(Path(folder)))
    return same_as_whole(found, WHOLE)


WHOLE: dict[str, torch.Tensor] = {}


# ---- what commands keep ----

RECORDS = [
    EpisodeRecord(
        key="0123456789abcdef", arm="mac", training_seed=0, group=(0, 2), episode=i, seed=10_000 + i, reward=1.0,
        completed=("left",), steps=2, held_dims=1.0, fallback=0, invalid=0, fill_ms=(1.0, 2.0),
        actions=((0.5, 0.25), (0.5, 0.25)), masks=("01", "01"), intent=("left",), changed_at=None, wished=(0, 1),
        assumed=(0, -1), beliefs=((0.5, 0.5),),
    )
    for i in range(2)
]  # fmt: skip


def well_typed(records: list[EpisodeRecord]) -> bool:
    texts, wholes, numbers = (
        ("key", "arm"),
        ("episode", "seed", "steps", "fallback", "invalid"),
        ("reward", "held_dims"),
    )
    for record in records:
        plain = dataclasses.asdict(record)
        tuples = ("completed", "masks", "intent", "fill_ms", "wished", "assumed")
        right = (
            all(type(plain[name]) is tuple for name in tuples)
            and all(type(plain[name]) is str for name in texts)
            and all(type(plain[name]) is int for name in wholes)
            and all(type(plain[name]) in (int, float) and np.isfinite(float(plain[name])) for name in numbers)
            and len(record.group) == 2
            and all(type(each) is int for each in (*record.group, *record.wished, *record.assumed))
            and all(type(each) is str for each in (*record.completed, *record.masks, *record.intent))
            and all(type(each) in (int, float) for each in record.fill_ms)
            and record.steps > 0
            and (record.training_seed is None or type(record.training_seed) is int)
        )
        if not right:
            return False
    return True


FACTS = {"evaluation": {"orders": 1}, "rows": 3}


def make_kept(folder: Path) -> None:
    tensors = {"joint.model": torch.arange(3.0, dtype=torch.float64)}
    checkpoint.write_kept(folder / "likelihood.safetensors", checkpoint.Kept(tensors, 1.5), FACTS)


def read_likelihoods(folder: Path) -> Any:
    return checkpoint.read_kept(folder / "likelihood.safetensors", FACTS, {"joint.model": 3})


def kept_usable(kept: Any) -> bool:
    if kept is None:
        return True  # measured again
    names = list(kept.tensors)
    return names == ["joint.model"] and kept.tensors[names[0]].dtype == torch.float64 and kept.seconds >= 0


def right_episode(episode: Episode | None) -> bool:
    return episode is None or bool(Demonstrations.of([episode], name="kept", kind="scripted").steps)


# ---- demonstrations ----


def make_minari(folder: Path) -> None:
    import os

    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    try:
        write_minari(make_demonstrations((3, 2), kind="scripted", completed=("kettle",), seed=3), "lab/made-v0")
    finally:
        os.environ.pop("MINARI_DATASETS_PATH")
        if before is not None:
            os.environ["MINARI_DATASETS_PATH"] = before


def finite(demos: Demonstrations) -> bool:
    summary = demos.summary()
    return bool(
        np.isfinite(demos.observations).all() and summary.steps and all(type(g) is str for g in summary.completed)
    )


# ---- rows of published sets ----


def numbers(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and bool(np.isfinite(np.asarray(array)).all())


def write(name: str, data: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(data)


def of_file(
    name: str, data: bytes, read: Callable[[Path], Any], usable: Callable[[Any], bool], *changes: Any
) -> Reader:
    return Reader(write(name, data), lambda folder: read(folder / name), usable, {name: changes or BYTES})


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(compressed: bool = False, **arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def picture() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(FLAT.integers(0, 255, (20, 24, 3)).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def make_bsds(folder: Path) -> None:
    (folder / "BSDS300").mkdir()
    with h5py.File(folder / "BSDS300" / "BSDS300.hdf5", "w") as file:
        for split in ("train", "validation", "test"):
            file[split] = FLAT.normal(size=(5, 63))


def unpacked(archive: Path) -> bytes:
    folder = archive.parent / "target"
    what = download.Download(archive.as_uri(), "archive", members=("data.txt",))
    download.retrieve(what, folder, Console(quiet=True, file=io.StringIO()))
    return (folder / "data.txt").read_bytes()


IMAGE = FLAT.integers(0, 255, (3, 28, 28)).astype(np.uint8)
IDX = digits.idx_header((3, 28, 28)) + IMAGE.tobytes()
BATCH = FLAT.integers(0, 255, (2, 3072)).astype(np.uint8)
TEXT = b"the quick brown fox jumps over the lazy dog " * 30
TABLE = "a,b\n" + "\n".join(f"{i},{i * i / 7}" for i in range(30))
LINES = ("\n".join(f"{i} {i * i / 7} 3" for i in range(30))).encode()
GOOD = ValueError  # the only kind of refusal of a file that is there

READERS: dict[str, Reader] = {
    "policy mac": Reader(lambda f: save_policy(make("mac"), f), read_policy, acts,
                         {"config.json": JSON, "model.safetensors": TENSORS}),
    "policy absolute": Reader(lambda f: save_policy(make("mac", representation="absolute", horizon=2), f), read_policy,
                              acts, {"config.json": JSON, "model.safetensors": TENSORS}),
    "policy bc": Reader(lambda f: save_policy(make("bc"), f), read_policy, acts, {"model.safetensors": TENSORS}),
    "arm": Reader(make_arm, checkpoint.load, answers, {"config.json": JSON, "model.safetensors": TENSORS}),
    "table": Reader(make_table, TableModel.load, draws, {"config.json": JSON, "model.safetensors": TENSORS}),
    "run": Reader(make_run, finish, same_as_uninterrupted,
                  {"state.safetensors": (*BYTES, malformed.of_values, malformed.of_form, malformed.of_notes("facts")),
                   "config.json": JSON, "best.safetensors": (*BYTES, malformed.of_values, malformed.of_form)}),
    "episodes": Reader(lambda f: EpisodeStore(f).append(RECORDS), lambda f: EpisodeStore(f).read(), well_typed,
                       {"episodes.jsonl": (malformed.of_bytes, malformed.of_lines)}),
    "likelihoods": Reader(make_kept, read_likelihoods, kept_usable,
                          {"likelihood.safetensors": (*TENSORS, malformed.of_notes("facts"),
                                                      malformed.of_notes("seconds"))}),
    "episode": Reader(lambda f: save_episode(episode_file(f, 0), make_episode(completed=("kettle",), seed=3)),
                      lambda f: load_episode(episode_file(f, 0)), right_episode, {"episode_000000.npz": BYTES}),
    "d4rl": Reader(lambda f: write_d4rl(f / "made.hdf5"), lambda f: read_d4rl(f / "made.hdf5"), finite,
                   {"made.hdf5": BYTES}),
    "minari": Reader(make_minari, lambda f: read_minari(f / "lab" / "made-v0"), finite,
                     {"lab/made-v0/data/metadata.json": JSON, "lab/made-v0/data/main_data.hdf5": BYTES}),
    "recordings npy": of_file("r.npy", npy(np.ones((5, 2), np.float32)), lambda p: read_recordings(str(p)),
                              lambda found: all(map(numbers, found))),
    "recordings npz": of_file("r.npz", npz(a=np.ones((5, 2), np.float32)), lambda p: read_recordings(str(p)),
                              lambda found: all(map(numbers, found))),
    "sb3": of_file("ppo.zip", zipped(data=json.dumps({"policy_delay": 2, "clip_range": 1}).encode()), algorithm_of,
                   lambda name: name in ("A2C", "DDPG", "PPO", "SAC", "TD3")),
    "idx": of_file("images", IDX, partial(digits.read_idx, shape=(3, 28, 28)), numbers),
    "idx.gz": of_file("images.gz", gzip.compress(IDX), partial(digits.read_idx, shape=(3, 28, 28)), numbers),
    "npz stored": of_file("x.npz", npz(data=BATCH), lambda p: formats.mapped_member(p, "data"), numbers),
    "npz deflated": of_file("x.npz", npz(True, data=BATCH), lambda p: formats.mapped_member(p, "data"), numbers),
    "batch": of_file("batch", pickle.dumps({"data": BATCH, "labels": [0, 1]}, 2), images.read_batch, numbers),
    "labels": of_file("batch", pickle.dumps({"data": BATCH, "labels": [0, 1]}, 2), _cifar10_batch, numbers),
    "npy": of_file("x.npy", npy(np.ones((5, 8))), tables.load_npy, numbers),
    "csv": of_file("x.csv", b"a,b\n1,2\n3,4\n", tables.load_csv, numbers),
    "own csv": of_file("x.csv", TABLE.encode(), lambda p: own.read_numbers(p)[1][:0], numbers),
    "own npy": of_file("x.npy", npy(np.ones((5, 8))), lambda p: own.read_numbers(p)[1][:0], numbers),
    "uci": of_file("data.txt", LINES, uci.read_numbers, numbers),
    "picture": of_file("x.png", picture(), lambda p: read_square(p, 8), numbers),
    "bsds": Reader(make_bsds, lambda f: tables.prepare_bsds(f).train, numbers, {"BSDS300/BSDS300.hdf5": BYTES}),
    "text8": of_file(f"text8_first_{len(TEXT)}", TEXT, text8.read_bytes, numbers),
    "text8.gz": of_file(f"text8_first_{len(TEXT)}.gz", gzip.compress(TEXT), text8.read_bytes, numbers),
    "text8.zip": of_file(f"text8_first_{len(TEXT)}.zip", zipped(text8=TEXT), text8.read_bytes, numbers),
    "zip": of_file("a.zip", zipped(**{"data.txt": LINES}), unpacked, lambda data: isinstance(data, bytes)),
    "tar": of_file("a.tar.gz", tarred(**{"data.txt": LINES}), unpacked, lambda data: isinstance(data, bytes)),
}  # fmt: skip
