"""Carrying out a comparison: rollouts, records, tables, figures, a film."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mac_policy.common.files import write_figure
from mac_policy.common.locks import locked
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.reading import read_json
from mac_policy.evaluation.comparison import Comparison, slug
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.group import FILMED
from mac_policy.evaluation.report.figures import dims_figure
from mac_policy.evaluation.report.film import write_film
from mac_policy.evaluation.report.summary import compare
from mac_policy.evaluation.report.tables import Grid, grids, notes, overview_grids, write_pages, write_table
from mac_policy.evaluation.rollout import Results, outdated, roll_out
from mac_policy.operators.dims import OperatorDims
from mac_policy.tasks import TaskEnvironment

FILM_SIZE = 240
"""Pixels of each arm's picture in a film."""
Say = Callable[[str | Grid], None]
"""Shows a line or a table to the user."""


def measure(comparison: Comparison, say: Say) -> Path:
    """Roll out what is missing, show and write the results; the path of results.json. InUse, where another process
    does so in the same folder."""
    with locked(comparison.out):
        return _measure(comparison, say)


def _measure(comparison: Comparison, say: Say) -> Path:
    everyone = [team for teams in comparison.teams.values() for team in teams]
    for arm, count in outdated(comparison.rollout, everyone, EpisodeStore(comparison.out)).items():
        say(f"{count} stored episodes of {arm} are of other weights, settings, versions or code and do not count.")
    if len(comparison.teams) == 1:
        measure_dims(comparison, next(iter(comparison.teams)), comparison.out, say)
        return comparison.out / "results.json"
    records = {dims: measure_dims(comparison, dims, comparison.out / slug(dims), say) for dims in comparison.teams}
    return write_overview(comparison, records, say)


def measure_dims(comparison: Comparison, dims: str, folder: Path, say: Say) -> dict[str, Any]:
    """The record of one specification of the operator's dims."""
    facts = comparison.facts(dims)
    for line in facts:
        say(line)
    store = EpisodeStore(comparison.out)
    beside = [EpisodeStore(path.parent) for path in sorted(comparison.out.parent.glob("*/episodes.jsonl"))]
    results = roll_out(
        comparison.rollout,
        comparison.teams[dims],
        store,
        workers=comparison.settings.workers,
        neighbours=[neighbour for neighbour in beside if neighbour.path != store.path],
    )
    record = run_record(comparison.settings.seed, comparison.dataset(dims)) | comparison.conditions(dims)
    record |= compare(
        results, comparison.task.goals, [arm.name for arm in comparison.arms if not (arm.shared or arm.told)]
    )
    for grid in grids(record):
        say(grid)
    for note in notes(record):
        say(note)
    title = f"{comparison.title(dims)}, dims {dims}"
    for page in write_pages(folder, title, facts, record, comparison.task.best_reward):
        say(f"{page.stem}: {page}")
    path = folder / "results.json"
    before = filmed(path)
    write_json(path, record)  # before the film, which takes a while
    record["video"] = film(comparison, results, folder, before, say) if comparison.settings.video else None
    write_json(path, record)
    return record


def filmed(path: Path) -> dict[str, Any] | None:
    """What an earlier results.json says of its film; None where there is none, and where it is damaged: it is written
    again from the episodes."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return None
    video = found.get("video") if isinstance(found, dict) else None
    return video if isinstance(video, dict) else None


def write_overview(comparison: Comparison, records: Mapping[str, Mapping[str, Any]], say: Say) -> Path:
    """Tables with a column for each specification of dims, and one results.json of all."""
    dims, first = next(iter(records.items()))
    facts = [line for line in comparison.facts(dims) if not line.startswith("Operator")]
    found = overview_grids(records, "the dims that are held")
    for grid in found:
        say(grid)
    say(f"table: {write_table(comparison.out, comparison.title(dims), facts, found, notes(first), ('dims',))}")
    arms = {slug(dims): record["arms"] for dims, record in records.items()}
    counts = first_dims([choice.dims for choice in comparison.operators.values()])
    picture = dims_figure(arms, comparison.title(dims), comparison.task.best_reward, counts)
    write_figure(comparison.out / "dims.png", picture, dpi=150)
    own = ("arms", "paired", "best_alone", "operator")
    parts = {dims: {key: record[key] for key in own} for dims, record in records.items()}
    head = {key: first[key] for key in ("dataset", "task", "start", "environment", "decoding", "max_change")}
    record = run_record(comparison.settings.seed) | head | {"by_operator_dims": parts}
    return write_json(comparison.out / "results.json", record)


def first_dims(rules: Sequence[OperatorDims]) -> list[int] | None:
    """The number of dims of each rule, where each holds the first ones and more than the rule before; else None."""
    counts = [
        -1 if rule.fixed is None or rule.fixed != tuple(range(len(rule.fixed))) else len(rule.fixed) for rule in rules
    ]
    return counts if min(counts) >= 0 and counts == sorted(set(counts)) else None


def film(
    comparison: Comparison, results: Results, folder: Path, before: Mapping[str, Any] | None, say: Say
) -> dict[str, Any] | None:
    """Film the first episode of each arm's first training seed, unless `before` describes the same film. With
    video='auto', an environment that cannot be drawn is reported and None is returned."""
    scenes = {arm: next(iter(seeds.values()))[FILMED] for arm, seeds in results.items()}
    path = folder / "video.mp4"
    made = {"path": str(path), "episodes": {arm: f"{record.key}-{FILMED}" for arm, record in scenes.items()}}
    if made != before or not path.exists():
        say("drawing the video (video=false skips it) ...")
        try:
            write_film(path, scenes, TaskEnvironment(comparison.task, FILM_SIZE), comparison.settings.workers)
        except (OSError, ImportError) as error:
            if comparison.settings.video is True:
                raise
            say(f"no video: {error}")
            return None
    say(f"video: {path}, as a picture that moves: {path.with_suffix('.gif')}, still: {path.with_suffix('.png')}")
    return made
