"""Show what a data set of demonstrations holds. `--help` explains each option."""

from pathlib import Path

import hydra
from _cli import clean_errors
from omegaconf import DictConfig
from rich.console import Console

from envs.demonstrations import TASKS, load_demonstrations
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.inspection import action_histograms, completions_over_time, summary_tables


@hydra.main(config_path="../configs", config_name="inspect_data", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    demonstrations = _load(config)
    console = Console()
    for table in summary_tables(demonstrations):
        console.print(table)
    output = Path(config.out)
    output.mkdir(parents=True, exist_ok=True)
    action_histograms(demonstrations).savefig(output / "actions.png", dpi=120)
    task = TASKS.get(str(config.dataset))
    over_time = completions_over_time(demonstrations, task.completions if task else None)
    over_time.savefig(output / "completions.png", dpi=120)
    if config.video is not None:
        _film(demonstrations, config, output)
    print(output)


def _load(config: DictConfig) -> Demonstrations:
    name, data = str(config.dataset), config.data
    if name in TASKS:
        return load_demonstrations(
            name,
            source=data.source,
            path=data.path,
            observation=config.observation or "qpos",
            outside=data.outside,
            episodes=data.episodes,
            order=data.order,
        )
    is_path = name.endswith((".hdf5", ".h5")) or Path(name).expanduser().exists()
    path = name if is_path else None
    return load_demonstrations("minari", dataset=name, source=data.source, path=path, outside=data.outside)


def _film(demonstrations: Demonstrations, config: DictConfig, output: Path) -> None:
    from envs.kitchen.replay import make_for_replay, replay, save_film

    if not 0 <= config.video < len(demonstrations):
        raise ValueError(f"video={config.video}: there are episodes 0 to {len(demonstrations) - 1}")
    if config.format not in ("mp4", "gif"):
        raise ValueError(f"format={config.format}: allowed are mp4 and gif")
    env = make_for_replay(str(config.dataset), config.size)
    frames, completed = replay(env, demonstrations.episodes[config.video])
    env.close()
    film = output / f"episode_{config.video}.{config.format}"
    save_film(frames, str(film))
    print(f"replay completed: {', '.join(completed) or 'nothing'}; film: {film}")


if __name__ == "__main__":
    main()
