"""Show what a data set of demonstrations holds. `--help` explains each option."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.command import Command
from mac_policy.cli.main import run
from mac_policy.demonstrations.episode import Episode
from mac_policy.demonstrations.inspection import action_histograms, completions_over_time, summary_tables
from mac_policy.tasks import TASKS, MinariTask, Task
from mac_policy.tasks.replay import film, save_film


def main(plain: dict[str, Any]) -> None:
    config = OmegaConf.create(plain)
    task, data = _task(config)
    demonstrations = task.load_demonstrations(**data)
    console = Console()
    for table in summary_tables(demonstrations):
        console.print(table)
    output = Path(config.out)
    output.mkdir(parents=True, exist_ok=True)
    action_histograms(demonstrations).savefig(output / "actions.png", dpi=120)
    over_time = completions_over_time(demonstrations, task.data.completions)
    over_time.savefig(output / "completions.png", dpi=120)
    if config.video is not None:
        if not 0 <= config.video < len(demonstrations):
            raise ValueError(f"video={config.video}: there are episodes 0 to {len(demonstrations) - 1}")
        _film(task, demonstrations.episodes[config.video], config, output)
    print(output)


def _task(config: DictConfig) -> tuple[Task, dict[str, Any]]:
    """The task and the options of its data; a Minari id, a folder or a file is the data of no named task."""
    name, data = str(config.dataset), dict(config.data)
    if name in TASKS:
        task = TASKS[name]
        return task if config.observation is None else task.with_options(observation=config.observation), data
    if name.endswith((".hdf5", ".h5")) or Path(name).expanduser().exists():
        data["path"] = name
    return MinariTask(dataset=name), data


def _film(task: Task, episode: Episode, config: DictConfig, output: Path) -> None:
    if config.format not in ("mp4", "gif"):
        raise ValueError(f"format={config.format}: allowed are mp4 and gif")
    frames, completed = film(task, episode, config.size)
    path = output / f"episode_{config.video}.{config.format}"
    save_film(frames, str(path))
    print(f"replay completed: {', '.join(completed) or 'nothing'}; film: {path}")


if __name__ == "__main__":
    run(Command(main, "inspect_data"))
