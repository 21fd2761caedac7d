"""Record scripted demonstrations of a task into a Minari data set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mac_policy.cli.command import Command, options_of, task_of
from mac_policy.common.settings import Count, Natural, Rows, Settings, from_mapping
from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.demonstrations.minari_write import Card
from mac_policy.demonstrations.resolve import DataSettings


@dataclass(frozen=True)
class Options(Settings):
    """See configs/collect_demos.yaml."""

    episodes: Rows
    seed: Natural
    workers: Count | None
    dataset_id: str | int | None
    overwrite: bool
    author: str | None
    author_email: str | None
    code_permalink: str | None

    def card(self, card: Card) -> Card:
        """The card of the recorded set, with what the user says of it."""
        return replace(
            card,
            author=(self.author,) if self.author else card.author,
            author_email=(self.author_email,) if self.author_email else (),
            code_permalink=self.code_permalink or "",
        )


def main(config: dict[str, Any]) -> None:
    options = options_of(Options, config)
    data = task_of(config).data.in_order(from_mapping(DataSettings, config["data"], "data").order)
    if data.scripted is None:
        raise ValueError(f"task={data.name} has no scripted demonstrator")
    scripted = replace(
        data.scripted, episodes=options.episodes, seed=options.seed, card=options.card(data.scripted.card)
    )
    dataset_id = data.scripted_id if options.dataset_id is None else str(options.dataset_id)
    print(collect_into_store(scripted, dataset_id, workers=options.workers, overwrite=options.overwrite))


COMMAND = Command(main, "collect_demos", renamed={"order": "data.order"}, aliases={"dataset": "task.dataset"})
