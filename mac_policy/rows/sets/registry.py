"""The benchmark data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mac_policy.common.checks import check_choice
from mac_policy.rows.sets.digits import load_binarized_mnist, load_fashion_mnist, load_mnist
from mac_policy.rows.sets.folders import FOLDERS, load_folder
from mac_policy.rows.sets.images import load_cifar10, load_imagenet32
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.sets.tables import TABLES, load_table
from mac_policy.rows.sets.text8 import load_text8
from mac_policy.rows.sets.uci import UCI_SHAPES, load_uci

SETS: dict[str, Callable[..., RowSet]] = {
    "text8": load_text8,
    "mnist": load_mnist,
    "fashion-mnist": load_fashion_mnist,
    "binarized_mnist": load_binarized_mnist,
    "cifar10": load_cifar10,
    "imagenet32": load_imagenet32,
    **{name: partial(load_folder, name) for name in FOLDERS},
    **{name: partial(load_table, name) for name in TABLES},
    **{name: partial(load_uci, name) for name in UCI_SHAPES},
}
RANDOM_SPLITS = tuple(UCI_SHAPES)  # these take `split`: rows are divided anew for each


def load_rows(
    name: str,
    root: str | Path | None = None,
    *,
    download: bool = False,
    console: Console | None = None,
    **options: Any,
) -> RowSet:
    """A benchmark data set. root: a folder to look in instead of $MAC_DATA and the cache.

    options: chunk (text8: characters a row); split (the UCI tables: number of the random split).

    >>> load_rows("text8", chunk=64).shape  # doctest: +SKIP
    (64,)
    """
    load = SETS[check_choice("data set", name, SETS)]
    taken = ("chunk",) if name == "text8" else ("split",) if name in RANDOM_SPLITS else ()
    for option in options:
        if option not in taken:
            raise ValueError(f"{name} takes no option {option!r}; it takes {', '.join(taken) or 'none'}")
    return load(root, download=download, console=console, **options)
