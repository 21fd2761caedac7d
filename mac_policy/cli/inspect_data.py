"""Show what a data set of demonstrations holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from mac_policy.cli.command import Command, options_of
from mac_policy.common.files import write_figure
from mac_policy.common.settings import Count, Natural, Settings, from_mapping
from mac_policy.demonstrations.episode import Episode
from mac_policy.demonstrations.inspection import action_histograms, completions_over_time, summary_tables
from mac_policy.demonstrations.resolve import DataSettings
from mac_policy.tasks import TASKS, MinariTask, Task
from mac_policy.tasks.replay import film, save_film


@dataclass(frozen=True)
class Options(Settings):
    """See configs/inspect_data.yaml."""

    dataset: str | int
    observation: str | None
    video: Natural | None
    format: Literal["mp4", "gif"]
    size: Count
    out: Path


def main(config: dict[str, Any]) -> None:
    options = options_of(Options, config)
    from_mapping(DataSettings, config["data"], "data")
    task, data = task_and_data(options, config["data"])
    demonstrations = task.load_demonstrations(**data)
    if options.video is not None and not 0 <= options.video < len(demonstrations):
        raise ValueError(f"video={options.video}: there are episodes 0 to {len(demonstrations) - 1}")
    console = Console()
    for table in summary_tables(demonstrations):
        console.print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    write_figure(options.out / "actions.png", action_histograms(demonstrations))
    over_time = completions_over_time(demonstrations, task.data.completions)
    write_figure(options.out / "completions.png", over_time)
    if options.video is not None:
        write_film(task, demonstrations.episodes[options.video], options)
    print(options.out)


def task_and_data(options: Options, data: dict[str, Any]) -> tuple[Task, dict[str, Any]]:
    """The task and the options of its data; a Minari id, a folder or a file is the data of no named task."""
    name = str(options.dataset)
    if name in TASKS:
        task = TASKS[name]
        return task if options.observation is None else task.with_options(observation=options.observation), data
    is_path = name.endswith((".hdf5", ".h5")) or Path(name).expanduser().exists()
    return MinariTask(dataset=name), data | ({"path": name} if is_path else {})


def write_film(task: Task, episode: Episode, options: Options) -> None:
    frames, completed = film(task, episode, options.size)
    path = options.out / f"episode_{options.video}.{options.format}"
    save_film(frames, str(path))
    print(f"replay completed: {', '.join(completed) or 'nothing'}; film: {path}")


COMMAND = Command(main, "inspect_data")
