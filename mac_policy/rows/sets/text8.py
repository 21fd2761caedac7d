"""text8: the first 100,000,000 characters of cleaned Wikipedia text, in 27 symbols.

The text is published at mattmahoney.net/dc/textdata and is split 90,000,000 / 5,000,000 / 5,000,000, as is standard.
A prefix, in a file named text8_first_<number of characters>, is split in the same proportions. Results on a prefix
compare arms with one another and are not comparable with published results.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.arrays import opened_member
from mac_policy.common.checks import check_count
from mac_policy.common.download import Download
from mac_policy.common.reading import reading
from mac_policy.rows.sets.published import Published, sole_file
from mac_policy.rows.sets.row_set import RowSet, files_sha256

ALPHABET = " abcdefghijklmnopqrstuvwxyz"
CHARACTERS = 100_000_000
CONTENT_MD5 = "3bea1919949baf155f99411df5fada7e"
BLOCK = 1 << 22
TEXT8 = Published(
    "text8",
    files=("text8, text8.gz, text8.zip (100,000,000 characters) or text8_first_<n>[.gz] (a prefix of n)",),
    markers=("text8*",),
    downloads=(
        Download(
            "http://mattmahoney.net/dc/text8.zip",
            "text8.zip",
            "sha256:a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
            31_344_016,
        ),
    ),
)

Codes = NDArray[np.uint8]

_CODE = np.full(256, 255, np.uint8)
_CODE[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(27)


def load_text8(root: str | Path | None = None, *, chunk: int = 250, download: bool = False) -> RowSet:
    """Load text8 or a prefix of it as consecutive rows of `chunk` characters without overlap.

    Values are codes: 0 is the space, 1..26 are a..z. The characters of a split after its last whole chunk are dropped.
    """
    check_count("chunk", chunk)
    path = text8_file(TEXT8.locate(root, download=download))
    codes = encode_bytes(read_bytes(path), str(path))
    limits = np.cumsum([0, *split_sizes(len(codes))])
    if len(codes) // 20 < chunk:
        raise ValueError(f"{path} has {len(codes):,} characters: too few for a chunk of {chunk} in each split")
    train, valid, test = (codes[a : b - (b - a) % chunk].reshape(-1, chunk) for a, b in pairwise(limits))
    note = "" if len(codes) == CHARACTERS else f"a prefix of {len(codes):,} characters"
    return RowSet("text8", train, valid, test, (chunk,), 27, str(path), files_sha256([path]), note)


def split_sizes(characters: int) -> tuple[int, int, int]:
    """The numbers of training, validation and test characters: 90% / 5% / 5%.

    >>> from mac_policy.rows.sets.text8 import split_sizes
    >>> split_sizes(100_000_000)
    (90000000, 5000000, 5000000)
    """
    held = characters // 20
    return characters - 2 * held, held, held


def text8_file(folder: Path) -> Path:
    """The path of the whole text or, if it is missing, of the longest prefix."""
    whole = sole_file(folder, "text8", "text8.gz", "text8.zip")
    prefixes = sorted(folder.glob("text8_first_*"), key=lambda path: named_length(path) or 0)
    if whole is None and not prefixes:
        raise ValueError(f"{folder} has none of {', '.join(TEXT8.files)}")
    return whole or prefixes[-1]


def named_length(path: Path) -> int | None:
    """The number of characters in the file name of a prefix, None for the whole text."""
    found = re.fullmatch(r"text8_first_(\d+)(\.\w+)?", path.name)
    return int(found[1]) if found else None


def read_bytes(path: Path) -> NDArray[np.uint8]:
    """Read the characters as bytes and check their number. An uncompressed file is memory-mapped."""
    most = (named_length(path) or CHARACTERS) + 1
    with reading(path, f"text of {_expected(path)}"):
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                content = np.frombuffer(file.read(most), np.uint8)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, opened_member(archive, archive.getinfo("text8"), path) as file:
                content = np.frombuffer(file.read(most), np.uint8)
        else:
            content = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.zeros(0, np.uint8)
    if len(content) != most - 1:
        found = f"{len(content):,}" if path.suffix not in (".gz", ".zip") or len(content) < most else "more"
        raise ValueError(f"{path} has {found} characters, expected {_expected(path)}")
    found = CONTENT_MD5 if named_length(path) else hashlib.md5(content.data, usedforsecurity=False).hexdigest()
    if found != CONTENT_MD5:
        raise ValueError(f"{path} is not text8: the md5 of its characters is {found}, expected {CONTENT_MD5}")
    return content


def _expected(path: Path) -> str:
    if promised := named_length(path):
        return f"{promised:,}, as its name says"
    return f"{CHARACTERS:,} (a prefix of n characters is to be named text8_first_<n>)"


def encode_bytes(content: NDArray[np.uint8], what: str = "the text") -> Codes:
    """Encode a-z and space as codes 0..26. A ValueError counts and names all other characters.

    >>> import numpy as np
    >>> from mac_policy.rows.sets.text8 import encode_bytes
    >>> encode_bytes(np.frombuffer(b"ab a", np.uint8)).tolist()
    [1, 2, 0, 1]
    """
    codes = np.empty(len(content), np.uint8)
    strange = np.zeros(256, np.int64)
    for start in range(0, len(content), BLOCK):
        block = content[start : start + BLOCK]
        codes[start : start + BLOCK] = _CODE[block]
        if (codes[start : start + BLOCK] == 255).any():
            strange += np.bincount(block[_CODE[block] == 255], minlength=256)
    if strange.any():
        kinds = int((strange > 0).sum())
        most = strange.argsort()[::-1][: min(kinds, 8)].tolist()
        named = ", ".join(f"{bytes([byte])!r} {strange[byte]:,} times" for byte in most)
        raise ValueError(
            f"{what} has {int(strange.sum()):,} characters outside a-z and space, {kinds} different ones: "
            f"{named}{', ...' if kinds > 8 else ''}; the first is at position {int((codes == 255).argmax()):,}"
        )
    return codes


def encode(text: str) -> Codes:
    """Encode a text of lower-case letters and spaces."""
    outside = sorted(set(text) - set(ALPHABET))
    if outside:
        count = sum(text.count(character) for character in outside)
        raise ValueError(f"the text has {count} characters outside a-z and space: {', '.join(map(repr, outside[:12]))}")
    return encode_bytes(np.frombuffer(text.encode(), np.uint8))


def decode(codes: NDArray[np.integer]) -> str:
    """Decode codes 0..26 to a text.

    >>> from mac_policy.rows.sets.text8 import decode, encode
    >>> decode(encode("a b"))
    'a b'
    """
    return "".join(ALPHABET[code] for code in codes)
