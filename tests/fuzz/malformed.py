"""Malformed versions of a well-formed file, drawn from a seed: of its bytes, of its JSON, of its tensors."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from safetensors import safe_open
from safetensors.torch import load, save

Change = tuple[str, bytes]
"""What was done to a file, and its new bytes."""

DEEP = "[" * 100_000 + "]" * 100_000
VALUES = (
    "x", "", 1, -1, 0, 2.5, -5, 10**9, 10**30, 1e308, None, True, False, [], [1], {}, {"a": 1}, [[]], "1", "../../x",
    ["x"] * 3, [-1, 2.5], [None], "\ud800", float("nan"), float("inf"),
)  # fmt: skip
WHOLE = (b"", b"[]", b"{", b"{}", b"3", b"null", b'"text"', b"\xff\xfe\x00", b"\x00" * 64, b'{"a":' * 9 + b"1")


def of_bytes(data: bytes, rng: random.Random) -> Iterator[Change]:
    """Flipped bits, lost and added bytes, without end."""
    while True:
        kind = rng.choice(("flip", "flips", "cut", "hole", "zeros", "noise", "number", "double", "whole"))
        place, changed = rng.randrange(max(1, len(data))), bytearray(data)
        if kind in ("flip", "flips"):
            for _ in range(1 if kind == "flip" else 20):
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del changed[place:]
        elif kind == "hole":
            del changed[place : place + rng.randrange(1, 100)]
        elif kind == "zeros":
            changed[place : place + 50] = bytes(len(changed[place : place + 50]))
        elif kind == "noise":
            changed[place : place + 30] = rng.randbytes(len(changed[place : place + 30]))
        elif kind == "number":  # a size in a header that promises too much
            changed[place : place + 8] = rng.choice(
                (b"\xff" * 7 + b"\x7f", b"\xff" * 8, (10**12).to_bytes(8, "little"))
            )
        elif kind == "double":
            changed += data
        else:
            changed = bytearray(rng.choice(WHOLE))
        yield f"{kind} at {place}", bytes(changed)


def of_head(data: bytes, rng: random.Random) -> Iterator[Change]:
    """The same, in the first 200 bytes, where most formats say what follows."""
    head = data[:200]
    for what, changed in of_bytes(head, rng):
        yield f"head: {what}", changed + data[200:]


def of_json(data: bytes, rng: random.Random) -> Iterator[Change]:
    """Every key with another value, without it, or with one beside it; and the whole as something else."""
    whole = json.loads(data)
    paths = list(_paths(whole))
    while True:
        if not paths or rng.random() < 0.1:
            text = rng.choice((*WHOLE, DEEP.encode()))
            yield f"is {text[:20]!r}", text
            continue
        changed, path = copy.deepcopy(whole), rng.choice(paths)
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        kind = rng.choice(("value",) * 8 + ("gone", "beside", "deep"))
        shown = ".".join(map(str, path))
        if kind == "value":
            parent[path[-1]] = value = rng.choice(VALUES)
            yield f"{shown} = {value!r}", json.dumps(changed).encode()
        elif kind == "gone":
            del parent[path[-1]]
            yield f"{shown} is gone", json.dumps(changed).encode()
        elif kind == "beside" and isinstance(parent, dict):
            parent["unheard_of"] = 1
            yield f"beside {shown}", json.dumps(changed).encode()
        else:
            parent[path[-1]] = "DEEP"
            yield f"{shown} is deep", json.dumps(changed).replace('"DEEP"', DEEP).encode()


def of_lines(data: bytes, rng: random.Random) -> Iterator[Change]:
    """One line of JSON lines changed."""
    lines = data.splitlines()
    changes = [of_json(line, rng) for line in lines]
    while True:
        chosen = rng.randrange(len(lines))
        what, line = next(changes[chosen])
        yield f"line {chosen}: {what}", b"\n".join([*lines[:chosen], line, *lines[chosen + 1 :]]) + b"\n"


DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)
FILLS = (float("nan"), float("inf"), -1.0, 0.0, -1e30, 1e30)


FORM, VALUE = ("dtype", "shape", "gone", "beside", "metadata"), ("fill", "value")


def of_tensors(
    data: bytes, rng: random.Random, kinds: Sequence[str] = FORM + VALUE, checksum: bool = False
) -> Iterator[Change]:
    """Tensors of another type, shape or value, missing or new, and other metadata, in a file that is in itself intact.

    checksum: whether the file keeps the checksum that it had; otherwise it has none, as those of other programs
    """
    tensors, metadata = load(data), _metadata(data)
    seal = {key: metadata.pop(key) for key in ("crc32",) if key in metadata}
    while True:
        changed, notes, name = dict(tensors), dict(metadata), rng.choice(sorted(tensors))
        kind = rng.choice(kinds)
        if kind == "dtype":
            dtype = rng.choice(DTYPES)
            changed[name], kind = changed[name].to(dtype), str(dtype)
        elif kind == "shape":
            changed[name] = rng.choice((torch.zeros(()), torch.zeros(0), torch.cat([changed[name].reshape(-1)] * 2)))
        elif kind == "fill" and changed[name].is_floating_point():
            fill = rng.choice(FILLS)
            changed[name], kind = torch.full_like(changed[name], fill), f"all {fill}"
        elif kind == "value" and changed[name].is_floating_point() and changed[name].numel():
            flat = changed[name].reshape(-1).clone()
            flat[rng.randrange(len(flat))] = fill = rng.choice(FILLS)
            changed[name], kind = flat.reshape(changed[name].shape), f"one {fill}"
        elif kind == "gone":
            del changed[name]
        elif kind == "beside":
            changed["unheard_of"] = torch.zeros(2)
        elif notes:
            key = rng.choice(sorted(notes))
            _, text = next(of_json(notes[key].encode(), rng)) if rng.random() < 0.3 else ("", None)
            notes |= {key: text.decode(errors="replace")} if text is not None else {}
            if text is None:
                del notes[key]
            name, kind = key, "another note"
        yield f"{name}: {kind}", save(changed, notes | seal if checksum else notes)


of_values = partial(of_tensors, kinds=VALUE, checksum=True)
of_form = partial(of_tensors, kinds=FORM)


def of_notes(key: str) -> Callable[[bytes, random.Random], Iterator[Change]]:
    """The JSON text under a key of a safetensors file's metadata, changed as `of_json` does."""

    def changes(data: bytes, rng: random.Random) -> Iterator[Change]:
        tensors, notes = load(data), _metadata(data)
        notes.pop("crc32", None)
        for what, text in of_json(notes[key].encode(), rng):
            yield f"{key}: {what}", save(tensors, notes | {key: text.decode(errors="replace")})

    return changes


def _metadata(data: bytes) -> dict[str, str]:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        with safe_open(file.name, framework="pt") as opened:
            return dict(opened.metadata() or {})


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every key and to the first entries of lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value[:3]):
            yield (*path, place)
            yield from _paths(inner, (*path, place))
