"""The columns of a pickled pandas table, read without pandas and without running what the pickle asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.sets.pickled import Shell, read_pickle


def frame_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Column name to values of a DataFrame pickled in the form that pandas wrote from 0.14.1 to 1.2."""
    frame = read_pickle(path, shells=("pandas",))
    try:
        manager = _manager(frame)
        _, _, _, extra = manager.state
        blocks = extra["0.14.1"]
        names = _index_values(blocks["axes"][0])
        columns: dict[int, NDArray[Any]] = {}
        for block in blocks["blocks"]:
            places = _places(block["mgr_locs"], len(names))
            columns |= dict(zip(places, np.asarray(block["values"]), strict=True))
        return {str(name): columns[place] for place, name in enumerate(names)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no table pickled by pandas 0.14.1 to 1.2 ({error!r})") from error


def _manager(frame: Any) -> Shell:
    """A DataFrame's state is its block manager, or a dict that holds it."""
    state = frame.state
    if isinstance(state, dict):
        state = state.get("_mgr", state.get("_data"))
    if not isinstance(state, Shell):
        raise ValueError("no block manager")
    return state


def _index_values(index: Any) -> list[Any]:
    """The labels of a pickled Index: `_new_Index(class, {"data": labels, ...})`."""
    return list(index.arguments[1]["data"])


def _places(locations: Any, count: int) -> list[int]:
    return list(range(count))[locations] if isinstance(locations, slice) else [int(i) for i in locations]
