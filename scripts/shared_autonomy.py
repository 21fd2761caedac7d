"""Roll out an operator with each policy that can fill in, and tabulate. `--help` explains each option."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from _shared_autonomy import Plan, make_plan, slug
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from envs.kitchen.rendering import RendererMissing
from mac_policy.cli.command import Command
from mac_policy.cli.main import run
from mac_policy.common.provenance import run_record, write_json
from mac_policy.evaluation.arms import datasets, policies_of
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.group import FILMED
from mac_policy.evaluation.report.film import Scene, write_film
from mac_policy.evaluation.report.record import compare, grids, notes, overview_grids, write_overview_page, write_pages
from mac_policy.evaluation.rollout import Results, outdated, roll_out

FILM_SIZE = 240
"""Pixels of each arm's picture in the film."""
CONSOLE = Console(highlight=False)
if not CONSOLE.is_terminal:
    CONSOLE.width = 120


def main(plain: dict[str, Any]) -> None:
    config = OmegaConf.create(plain)
    plan = make_plan(config)
    plan.out.mkdir(parents=True, exist_ok=True)
    everyone = [team for teams in plan.teams.values() for team in teams]
    for arm, count in outdated(plan.rollout, everyone, EpisodeStore(plan.out)).items():
        say(f"{count} stored episodes of {arm} are of other weights, settings, versions or code and do not count.")
    records = {}
    for dims in plan.teams:
        folder = plan.out if len(plan.teams) == 1 else plan.out / slug(dims)
        records[dims] = measure(config, plan, dims, folder)
    print(write_overview(config, plan, records) if len(records) > 1 else plan.out / "results.json")


def measure(config: DictConfig, plan: Plan, dims: str, folder: Path) -> dict[str, Any]:
    """Roll out one comparison, print it, write it."""
    facts = describe(config, plan, dims)
    say(*facts)
    results = rolled_out(config, plan, dims)
    record = run_record(config.seed, dataset_of(plan, dims)) | conditions(config, plan, dims)
    record |= compare(results, plan.env.task.goals, [arm.name for arm in plan.arms if not arm.shared])
    for grid in grids(record):
        CONSOLE.print(grid.rich())
    say(*notes(record))
    title = f"{config.task.name}, operator {plan.operators[dims].label}, dims {dims}"
    pages = write_pages(folder, title, facts, record, plan.env.task.best_reward)
    say(*(f"{page.stem}: {page}" for page in pages))
    path = folder / "results.json"
    before = json.loads(path.read_text()).get("video") if path.exists() else None
    write_json(path, record)  # before the film, which takes a while
    record["video"] = None if config.video is False else film(config, plan, results, folder, before)
    write_json(path, record)
    return record


def rolled_out(config: DictConfig, plan: Plan, dims: str) -> Results:
    store = EpisodeStore(plan.out)
    beside = [EpisodeStore(path.parent) for path in sorted(plan.out.parent.glob("*/episodes.jsonl"))]
    neighbours = [neighbour for neighbour in beside if neighbour.path != store.path]
    return roll_out(plan.rollout, plan.teams[dims], store, workers=config.workers, neighbours=neighbours)


def say(*lines: str) -> None:
    for line in lines:
        CONSOLE.print(line, soft_wrap=True, markup=False)


# ---- what the numbers are of ----


def describe(config: DictConfig, plan: Plan, dims: str) -> list[str]:
    """In words: the task, the operator, what the policies learned from."""
    data = [
        f"{found.get('name')} ({found.get('source')} demonstrations{', NOT people' if scripted(found) else ''}; "
        f"{found.get('episodes')} episodes, {found.get('steps')} steps)"
        for found in datasets(plan.teams[dims])
    ]
    seeds = ", ".join(map(str, plan.training_seeds))
    return [
        f"Task: {plan.env.task.describe()}.",
        f"Operator: {plan.operators[dims].describe()}; it holds dims {dims}.",
        f"Policies trained on: {'; '.join(data) or 'none is needed'}.",
        f"Episodes: {config.episodes} an arm and training seed, from seed {config.seed} in every arm; "
        f"training seeds {seeds}.",
        *changed(config, plan),
    ]


def changed(config: DictConfig, plan: Plan) -> list[str]:
    """A line about what is not as usual."""
    found = [f"{kind} stands for the runs {config[kind]}" for kind in ("mac", "bc") if config[kind] != kind]
    found += [f"{name}={value}" for name, value in plan.decoding.items()]
    found += [f"max_change={config.max_change}"] if config.max_change is not None else []
    return [f"Settings: {', '.join(found)}."] if found else []


def scripted(dataset: dict[str, Any]) -> bool:
    return dataset.get("source") == "scripted"


def dataset_of(plan: Plan, dims: str) -> dict[str, Any] | None:
    """The data set of the policies; where there are several, the first, with the others in it."""
    found = datasets(plan.teams[dims])
    if not found:
        return None
    return found[0] | ({"others": found[1:]} if len(found) > 1 else {})


def conditions(config: DictConfig, plan: Plan, dims: str) -> dict[str, Any]:
    operator = plan.operators[dims]
    return {
        "task": config.task.name,
        "start": plan.env.identity().get("start", "official"),
        "environment": plan.env.identity(),
        "operator": operator.identity() | {"description": operator.describe()},
        "operator_dims": dims,
        "decoding": plan.decoding,
        "max_change": config.max_change,
        "policies": {
            f"{team.arm} s{team.training_seed}": [policy.folder for policy in policies_of(team)]
            for team in plan.teams[dims]
        },
    }


def write_overview(config: DictConfig, plan: Plan, records: dict[str, dict[str, Any]]) -> Path:
    """The rewards of all specifications of dims side by side, and one results.json of all."""
    first = next(iter(records.values()))
    dims = first["operator_dims"]
    facts = [line for line in describe(config, plan, dims) if not line.startswith("Operator")]
    found = overview_grids(records, "the dims that are held")
    for grid in found:
        CONSOLE.print(grid.rich())
    title = f"{config.task.name}, operator {plan.operators[dims].label}"
    say(f"table: {write_overview_page(plan.out, title, facts, found, notes(first))}")
    parts = {
        dims: {key: record[key] for key in ("arms", "paired", "best_alone", "operator")}
        for dims, record in records.items()
    }
    head = {key: first[key] for key in ("dataset", "task", "start", "environment", "decoding", "max_change")}
    return write_json(plan.out / "results.json", run_record(config.seed) | head | {"by_operator_dims": parts})


# ---- the film ----


def film(
    config: DictConfig, plan: Plan, results: Results, folder: Path, before: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Film the first episode of each arm's first training seed, unless `before` is of the same; where nothing can
    draw, say what is missing."""
    scenes = [Scene(arm, next(iter(seeds.values()))[FILMED]) for arm, seeds in results.items()]
    path = folder / "video.mp4"
    made = {"path": str(path), "episodes": {scene.title: f"{scene.record.key}-{FILMED}" for scene in scenes}}
    if made != before or not path.exists():
        say("drawing the video (video=false skips it) ...")
        drawn = dataclasses.replace(plan.env, size=FILM_SIZE)
        try:
            write_film(
                path, scenes, drawn, every=drawn.task.film_every, fps=drawn.task.film_fps, workers=config.workers
            )
        except (RendererMissing, ImportError) as error:
            if config.video is True:
                raise
            say(f"no video: {error}")
            return None
    say(f"video: {path}", f"still: {path.with_suffix('.png')}")
    return made


if __name__ == "__main__":
    run(Command(main, "shared_autonomy"))
