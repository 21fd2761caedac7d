"""Table 7 of the MAC paper: the masks that training meets under each mask distribution, exact and sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from mac_policy.cli.command import Command, options_of
from mac_policy.common.checks import check_count
from mac_policy.common.files import write_figure
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.settings import Count, Natural, Settings
from mac_policy.core import UniformCardinality, induced_mask_distribution
from mac_policy.core.induced import LARGEST_TABLE
from mac_policy.core.masks import all_masks, mask_codes
from mac_policy.core.paths import SimulatedPaths

PLAIN = {"query": "marginal", "protocol": "largest", "path_weighting": "mean", "cardinality_reweighting": False}
PATHS: dict[str, dict[str, Any]] = {
    "w-RND": PLAIN | {"protocol": "random"},
    "w-MAC": PLAIN,
    "w-MAC+CR": PLAIN | {"cardinality_reweighting": True},
    "w-MAC-edge": PLAIN | {"path_weighting": "sum"},
}


def exact_columns(n: int) -> dict[str, Tensor]:
    """Column name to the probability of every mask, (2^n,) float64."""
    masks = UniformCardinality(n)
    columns = {"M": masks.log_prob(all_masks(n)).exp()}
    return columns | {name: induced_mask_distribution(masks, **settings) for name, settings in PATHS.items()}


def sampled_columns(n: int, samples: int, seed: int) -> dict[str, Tensor]:
    """The same by drawing masks and following their paths, without the tables."""
    g = torch.Generator().manual_seed(seed)
    masks = UniformCardinality(n)

    def path(settings: dict[str, Any]) -> Callable[[int], Tensor]:
        law = SimulatedPaths(masks, None, **settings)
        return lambda count: law.sample(count, False, g).evidence

    draws = {"M": lambda count: masks.sample(count, g)} | {name: path(settings) for name, settings in PATHS.items()}
    return {name: _frequencies(draw, n, samples) for name, draw in draws.items()}


def _frequencies(draw: Callable[[int], Tensor], n: int, samples: int) -> Tensor:
    counts = torch.zeros(2**n, dtype=torch.float64)
    for start in range(0, samples, 100_000):
        counts += torch.bincount(mask_codes(draw(min(100_000, samples - start))), minlength=2**n)
    return counts / samples


def entropy(law: Tensor) -> float:
    """In nats."""
    return float(-torch.xlogy(law, law).sum())


def name_of(row: int, n: int) -> str:
    """A mask as text, lowest index first."""
    return "".join("1" if row >> i & 1 else "0" for i in range(n))


@dataclass(frozen=True)
class Options(Settings):
    """See configs/mask_distribution.yaml."""

    n: Count
    samples: Annotated[int, partial(check_count, most=10**9)]
    seed: Natural
    rows: Any
    out: Path

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > LARGEST_TABLE:
            raise ValueError(f"n must be at most {LARGEST_TABLE} for an exact table of 2^n masks, got {self.n}")
        bad = next((row for row in self.masks if not row or set(row) - {"0", "1"}), None)
        if not isinstance(self.rows, tuple) or bad is not None:
            found = self.rows if bad is None else bad
            raise ValueError(
                f"rows must be a list of masks written in 0 and 1, such as rows=[1000,1110], got {found!r}"
            )

    @property
    def masks(self) -> list[str]:
        """The rows as typed: YAML reads 100000000000 as a number and 011111111110 as one in base eight."""
        return [str(row) for row in self.rows] if isinstance(self.rows, tuple) else []


def shown_rows(wanted: list[str], law: Tensor, n: int, at_least: int = 8) -> list[str]:
    """The wanted masks that have n digits, then the likeliest until there are enough."""
    fitting = [mask for mask in wanted if len(mask) == n]
    likeliest = [name_of(int(row), n) for row in law.argsort(descending=True, stable=True)[: 2 * at_least]]
    return (fitting + [mask for mask in likeliest if mask not in fitting])[: max(at_least, len(fitting))]


def results(options: Options, exact: dict[str, Tensor], sampled: dict[str, Tensor], rows: list[str]) -> dict[str, Any]:
    def column(name: str, law: Tensor) -> dict[str, Any]:
        per_million = {name_of(row, options.n): p * 1e6 for row, p in enumerate(law.tolist())}
        settings = {"masks": f"UniformCardinality({options.n})"} | PATHS.get(name, {})
        return {"settings": settings, "entropy": entropy(law), "per_million": per_million}

    return run_record(options.seed) | {
        "n": options.n,
        "samples": options.samples,
        "rows": rows,
        "columns": {name: column(name, law) for name, law in exact.items()},
        "sampled": {name: column(name, law) for name, law in sampled.items()},
    }


def print_table(record: dict[str, Any]) -> None:
    table = Table(
        title=f"Masks met per million, N = {record['n']}: exact, below it sampled ({record['samples']:,} draws)"
    )
    table.add_column("mask", no_wrap=True)
    for name in record["columns"]:
        table.add_column(name, justify="right")
    for mask in record["rows"]:
        cells = [
            f"{record['columns'][name]['per_million'][mask]:.0f}\n({record['sampled'][name]['per_million'][mask]:.0f})"
            for name in record["columns"]
        ]
        table.add_row(mask, *cells)
    table.add_section()
    pairs = [(record["columns"][name]["entropy"], record["sampled"][name]["entropy"]) for name in record["columns"]]
    table.add_row("entropy, nats", *[f"{exact:.3f}\n({drawn:.3f})" for exact, drawn in pairs])
    Console().print(table)


def draw_plot(record: dict[str, Any], path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    bars, nats = figure.subplots(1, 2, width_ratios=[4, 1])
    names = list(record["columns"])
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        exact = [record["columns"][name]["per_million"][mask] for mask in record["rows"]]
        drawn = [record["sampled"][name]["per_million"][mask] for mask in record["rows"]]
        places = [row + (i - (len(names) - 1) / 2) * width for row in range(len(exact))]
        bars.bar(places, exact, width, label=name, color=f"C{i}")
        bars.plot(places, drawn, "k_", markersize=7, label="sampled" if name == names[-1] else None)
        nats.bar(i, record["columns"][name]["entropy"], color=f"C{i}")
    bars.set_yscale("symlog", linthresh=100)
    bars.set_ylim(bottom=0)
    bars.set_xticks(range(len(record["rows"])), record["rows"], rotation=30, ha="right", family="monospace")
    bars.set(ylabel="masks per million", title=f"Evidence masks met in training, N = {record['n']}")
    figure.legend(loc="outside lower center", ncols=len(names) + 1)
    nats.set_xticks(range(len(names)), names, rotation=30, ha="right")
    nats.set(ylabel="nats", title="Entropy")
    return write_figure(path, figure)


def main(config: dict[str, Any]) -> None:
    options = options_of(Options, config)
    options.out.mkdir(parents=True, exist_ok=True)  # before the work: a folder that cannot be made costs nothing
    exact = exact_columns(options.n)
    sampled = sampled_columns(options.n, options.samples, options.seed)
    record = results(options, exact, sampled, shown_rows(options.masks, exact["w-MAC+CR"], options.n))
    print_table(record)
    path = write_json(options.out / "results.json", record)
    print(f"plot: {draw_plot(record, options.out / 'mask_distribution.png')}")
    print(path)


COMMAND = Command(main, "mask_distribution")
