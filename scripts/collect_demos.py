"""Record scripted demonstrations of a task into a Minari data set. `--help` explains each option."""

from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.command import Command
from mac_policy.cli.main import run
from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.demonstrations.minari_write import Card
from mac_policy.demonstrations.task_data import Scripted
from mac_policy.tasks import TASKS


def main(plain: dict[str, Any]) -> None:
    config = OmegaConf.create(plain)
    task = TASKS.find(config.task.name).data.in_order(config.order)
    if task.scripted is None:
        raise ValueError(f"task={task.name} has no scripted demonstrator")
    if not isinstance(config.overwrite, bool):
        raise ValueError(f"overwrite is {config.overwrite!r}; it must be true or false")
    scripted = replace(task.scripted, episodes=config.episodes, seed=config.seed)
    scripted = replace(scripted, card=_card(scripted, config))
    folder = collect_into_store(
        scripted,
        config.dataset_id or task.scripted_id,
        workers=config.workers,
        overwrite=config.overwrite,
    )
    print(folder)


def _card(scripted: Scripted, config: DictConfig) -> Card:
    given = {
        "author": (config.author,) if config.author else scripted.card.author,
        "author_email": (config.author_email,) if config.author_email else (),
        "code_permalink": config.code_permalink or "",
    }
    return replace(scripted.card, **given)


if __name__ == "__main__":
    run(Command(main, "collect_demos"))
