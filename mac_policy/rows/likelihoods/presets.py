"""Build a comparison from plain values: a benchmark, its preset and a user's changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from mac_policy.common.checks import check_choice, check_list, check_mapping
from mac_policy.common.settings import Count, Settings, choice, from_mapping
from mac_policy.rows.checkpoint import read_config
from mac_policy.rows.likelihoods.comparison import Comparison
from mac_policy.rows.likelihoods.queries import EvaluationSettings
from mac_policy.rows.likelihoods.training import Budget, Variation
from mac_policy.rows.methods import METHODS
from mac_policy.rows.sets.registry import RANDOM_SPLITS, SETS, load_rows
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.training.settings import TrainSettings

MAPPINGS = (
    "data", "network", "path_network", "baselines", "head", "order", "regions", "training", "variation", "evaluation",
)  # fmt: skip
KEYS = (*MAPPINGS, "energy_warmup", "seeds")


@dataclass(frozen=True)
class DataSettings(Settings):
    """The rows of a benchmark: the name of the set, its place, and how many rows of each split are used.

    root, download, chunk, path: as `load_rows` takes them
    train_rows, valid_rows, test_rows: None for all
    """

    prefix: ClassVar[str] = "data."

    name: Annotated[str, choice(SETS, "data set")]
    root: Path | None = None
    download: bool = False
    chunk: Count | None = None
    path: Path | None = None
    train_rows: Count | None = None
    valid_rows: Count | None = None
    test_rows: Count | None = None


def chosen(benchmark: Mapping[str, Any], preset: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Merge the base of a benchmark, its preset and a user's changes; later values take precedence, None is ignored.

    >>> from mac_policy.rows.likelihoods.presets import chosen
    >>> chosen({"base": {"training": {"clip": 1}}, "presets": {"cpu": {"training": {"steps": 5}}}}, "cpu")
    {'training': {'clip': 1, 'steps': 5}}
    """
    preset = check_choice("preset", preset, benchmark["presets"])
    for key, value in (changes or {}).items():
        if key in MAPPINGS and value is not None:
            check_mapping(key, value)
    found = merged(merged(benchmark.get("base") or {}, benchmark["presets"][preset]), changes or {})
    for key in found:
        check_choice("part of a benchmark", key, KEYS)
    return found


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into `under` recursively. None is ignored. A mapping with another `kind` replaces the one below."""
    out = dict(under)
    for key, value in over.items():
        below = out.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            another = "kind" in value and value["kind"] not in (None, below.get("kind"))
            out[key] = merged({} if another else below, value)
        elif value is not None:
            out[key] = merged({}, value) if isinstance(value, Mapping) else value
    return {key: value for key, value in out.items() if value is not None and value != {}}


def make_comparison(
    name: str,
    values: Mapping[str, Any],
    arms: Sequence[str],
    folder: Path,
    *,
    seeds: Sequence[int] | None = None,
) -> Comparison:
    """Build the comparison of the `chosen` values. The data are read when the comparison runs."""
    data = from_mapping(DataSettings, values["data"], "data")
    networks = {"set": values.get("network"), "path": values.get("path_network"), **baselines(values)}
    budget = Budget(
        training=from_mapping(TrainSettings, values["training"], "training settings"),
        variation=from_mapping(Variation, values.get("variation") or {}, "variation"),
        energy_warmup=values.get("energy_warmup", 0),
        evaluation=from_mapping(EvaluationSettings, values.get("evaluation") or {}, "evaluation settings"),
    )
    return Comparison(
        name=name,
        load=partial(load_for_seed, data),
        networks={kind: network for kind, network in networks.items() if network},
        head=values["head"],
        order=values.get("order") or {"kind": "lexicographic"},
        budget=budget,
        arms=tuple(check_list("arms", arms)),
        seeds=tuple(check_list("seeds", values["seeds"] if seeds is None else seeds)),
        folder=folder,
        random_splits=data.name in RANDOM_SPLITS,
        regions=values.get("regions") or {},
    )


def baselines(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of every baseline, with the benchmark's set network by default."""
    said = values.get("baselines") or {}
    names = [arm.network for arm in METHODS.values() if arm.is_baseline]
    for name, settings in said.items():
        check_mapping(f"baselines.{check_choice('baseline', name, names)}", settings)
    return {name: {"kind": name, "network": values.get("network"), **said.get(name, {})} for name in names}


def load_for_seed(data: DataSettings, seed: int) -> RowSet:
    """Load the rows of `data`. A table without published splits is split by the seed."""
    options: dict[str, Any] = {"split": seed} if data.name in RANDOM_SPLITS else {}
    options |= {key: value for key in ("chunk", "path") if (value := getattr(data, key)) is not None}
    rows = load_rows(data.name, data.root, download=data.download, **options)
    return rows.limited(**{split: getattr(data, f"{split}_rows") for split in ("train", "valid", "test")})


def rows_of_arm(folder: Path, root: str | Path | None = None) -> RowSet:
    """Load all rows of the data set that an arm was trained on, in the same split.

    Other files raise a ValueError, because their test rows may be training rows of the arm.
    """
    described = read_config(folder)
    name, trained_on = described["dataset"]["name"], described["dataset"]["sha256"]
    place: dict[str, Any] = {"name": name, "root": root}
    if name == "text8":
        place["chunk"] = described["dataset"]["variables"]
    if name == "table":
        place["path"] = described["dataset"]["source"]
    rows = load_for_seed(
        from_mapping(DataSettings, place, "data"), described["identity"]["seed"] if name in RANDOM_SPLITS else 0
    )
    if rows.sha256 != trained_on:
        raise ValueError(
            f"{folder} was trained on other data than {rows.location}: sha256 {trained_on}, here {rows.sha256}; "
            "set root or $MAC_DATA to the folder of those files"
        )
    return rows
