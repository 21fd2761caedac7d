"""The Imputer beside other imputers on small tables with hidden values.

    python benchmarks/imputers.py

For each table, law of missing values and mask, cells are hidden; every imputer is fitted to the incomplete table and
fills it in. All imputers get the same masks, so that differences are paired. Error: of hidden numbers the NRMSE, by the
standard deviations of the columns; of hidden categories the share of wrong ones. Draws of 60 rows of each mask: the
share of hidden numbers in central 90% intervals, the same where the mass of a level that an edge of the interval cuts
counts in part (numbers on a few levels), and CRPS. Seconds are those of the processor. Measurements that the
output folder already holds are not repeated; a run that is broken off is resumed by the same command.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

try:
    import sklearn
    from threadpoolctl import threadpool_limits

    from benchmarks.imputation.imputers import DRAWS, IMPUTERS, OURS, PEERS
except ModuleNotFoundError as error:
    sys.exit(
        f"error: this compares with scikit-learn on pandas tables: pip install mac-policy[sklearn] pandas ({error})"
    )

from benchmarks.imputation.errors import errors_of
from benchmarks.imputation.tables import TABLES, hidden_cells
from benchmarks.options import existing_folder, run, whole
from mac_policy.common.digest import modules_sha256
from mac_policy.common.provenance import run_record, versions, write_json
from mac_policy.common.reading import read_json
from mac_policy.common.statistics import summary, with_interval

CODE = modules_sha256("mac_policy.rows", "mac_policy.core", "benchmarks.imputation")
"""What is measured again when it has changed."""
LAWS = ("random-0.2", "random-0.4", "value-0.3")
DRAWN_ROWS = 60
MEASURES = ("nrmse", "wrong_classes", "coverage", "coverage_split", "crps")


def measured(name: str, table: pd.DataFrame, law: str, mask: int, which: str, imputer: Any, folder: Path) -> Any:
    """The errors of an imputer for a mask of a table, from the folder or measured now."""
    path = folder / "measured" / f"{name}-{law}-{which}-{mask}.json"
    facts = {
        "imputer": imputer.describe(),
        "versions": {**versions(), "scikit-learn": sklearn.__version__},
        "threads": torch.get_num_threads(),
        "measures": list(MEASURES),
        "draws": [DRAWS, DRAWN_ROWS],
        "code": CODE,
        "sha256": hashlib.sha256(table.to_csv().encode()).hexdigest(),
    }
    kept = stored(path)
    if kept.get("facts") != facts:
        hidden = hidden_cells(table, law, mask)
        rows = np.random.default_rng([mask, DRAWN_ROWS]).permutation(len(table))[:DRAWN_ROWS]
        found = imputer.fill(table.mask(hidden), rows, mask)
        kept = {"facts": facts, **errors_of(found, table, hidden, rows)}
        write_json(path, kept)
        print(f"{path.stem}: " + ", ".join(f"{key} {kept[key]:.3f}" for key in MEASURES if kept[key] is not None))
    return kept


def stored(path: Path) -> dict[str, Any]:
    """What was measured before; nothing where the file is missing or damaged."""
    try:
        found = read_json(path)
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def summarised(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Means over masks with Student's intervals, and paired differences between our imputer and each other one."""
    return {
        imputer: {
            **{key: _mean([one[key] for one in of_masks]) for key in MEASURES},
            **{f"{key}_difference": _difference(found[OURS], of_masks, key) for key in ("nrmse", "wrong_classes")},
            **{key: float(np.mean([one[key] for one in of_masks])) for key in ("fit_seconds", "transform_seconds")},
            "not_converged": sum(bool(one["warned"]) for one in of_masks),
        }
        for imputer, of_masks in found.items()
    }


def _mean(values: Sequence[float | None]) -> Any:
    return None if None in values else summary([np.array(values, np.float64)], shared_rows=True, rows="masks")


def _difference(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], key: str) -> Any:
    """Ours minus theirs, mask by mask."""
    if any(one[key] is None for one in (*ours, *theirs)):
        return None
    return _mean([mine[key] - other[key] for mine, other in zip(ours, theirs, strict=True)])


def ranks(results: Sequence[Mapping[str, Any]], key: str) -> dict[str, float]:
    """The mean rank of each imputer over tables and laws, 1 is best."""
    rows = [[one[key]["mean"] for one in each["imputers"].values()] for each in results if each["imputers"][OURS][key]]
    if not rows:
        return {}
    order = [pd.Series(row).rank().to_numpy() for row in rows]
    return dict(zip(results[0]["imputers"], np.mean(order, 0).round(2).tolist(), strict=True))


def behind(results: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """How far our error is above the best other one, as a share of it, where it is above."""
    found = []
    for each in results:
        errors = {name: one[key]["mean"] for name, one in each["imputers"].items() if one[key]}
        if OURS in errors and len(errors) > 1:
            best = min((name for name in errors if name != OURS), key=lambda name: errors[name])
            if errors[OURS] > errors[best]:
                share = errors[OURS] / errors[best] - 1 if errors[best] else None
                found.append({"table": each["table"], "law": each["law"], "best": best, "behind": share})
    return found


def results_table(record: Mapping[str, Any]) -> Table:
    imputers = list(record["results"][0]["imputers"])
    title = "NRMSE of numbers; share of wrong categories; cover of 90% intervals (ties split), CRPS; fit + transform s"
    table = Table(title=title)
    for name in ("table", "law", *imputers):
        table.add_column(name, justify="right")
    for each in record["results"]:
        table.add_row(each["table"], each["law"], *(_cell(each["imputers"][name]) for name in imputers))
    return table


def _cell(found: Mapping[str, Any]) -> str:
    lines = [with_interval(found["nrmse"], ".3f")]
    if found["wrong_classes"] is not None:
        lines.append(with_interval(found["wrong_classes"], ".3f"))
    lines.append(_draws(found))
    lines.append(f"{found['fit_seconds']:.1f} + {found['transform_seconds']:.2f} s")
    return "\n".join(lines)


def _draws(found: Mapping[str, Any]) -> str:
    cover = f"{found['coverage']['mean']:.0%} ({found['coverage_split']['mean']:.0%}), " if found["coverage"] else ""
    return f"{cover}{found['crps']['mean']:.3f}"


def markdown(record: Mapping[str, Any]) -> str:
    """The comparison as a table of a page: our errors, those of the others, and the paired difference to the best of
    them with its interval."""
    imputers = [name for name in record["results"][0]["imputers"] if name != OURS]
    lines = [
        f"| table | law | error | {OURS} | {' | '.join(imputers)} | difference to the best other "
        "| coverage (ties split), CRPS |"
    ]
    lines.append("| --- " * (6 + len(imputers)) + "|")
    for each in record["results"]:
        for key, what in (("nrmse", "numbers"), ("wrong_classes", "classes")):
            found = {name: one for name, one in each["imputers"].items() if one[key] is not None}
            others = {name: one[key]["mean"] for name, one in found.items() if name != OURS}
            if OURS not in found or not others:
                continue
            best = min(others, key=lambda name: others[name])
            cells = [each["table"], each["law"], what, f"{found[OURS][key]['mean']:.3f}"]
            cells += [f"{others[name]:.3f}" for name in imputers]
            cells.append(f"{with_interval(found[best][f'{key}_difference'], '+.3f')} ({best})")
            draws = found[OURS]
            cells.append(_draws(draws) if key == "nrmse" else "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--masks", nargs="+", type=whole(0), default=list(range(10)), help="seeds of the masks")
    parser.add_argument("--imputers", nargs="+", choices=IMPUTERS, default=list(IMPUTERS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[], help="imputers of further packages")
    parser.add_argument("--root", type=existing_folder, help="folder with the UCI tables [$MAC_DATA]")
    parser.add_argument("--threads", type=whole(1), default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/imputers"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    threadpool_limits(options.threads)  # of NumPy and scikit-learn, in every imputer alike
    chosen = {name: IMPUTERS[name] for name in dict.fromkeys([OURS, *options.imputers])}
    chosen |= {name: PEERS[name]() for name in options.peers}
    record: dict[str, Any] = run_record(None) | {
        "settings": {key: value for key, value in vars(options).items() if key not in ("out", "root")},
        "imputers": {name: imputer.describe() for name, imputer in chosen.items()},
        "results": [],
    }
    tables = {name: TABLES[name](options.root) for name in options.tables}
    for name, table in tables.items():
        for law in options.laws:
            found = {
                which: [measured(name, table, law, mask, which, imputer, options.out) for mask in options.masks]
                for which, imputer in chosen.items()
            }
            facts = {"table": name, "law": law, "rows": len(table), "columns": table.shape[1]}
            record["results"].append({**facts, "imputers": summarised(found)})
            write_json(options.out / "results.json", record)
    for key in ("nrmse", "wrong_classes"):
        record[f"{key}_ranks"], record[f"{key}_behind"] = ranks(record["results"], key), behind(record["results"], key)
    (options.out / "table.md").write_text(markdown(record))
    Console(width=None if Console().is_terminal else 200).print(results_table(record))
    print(f"mean ranks: numbers {record['nrmse_ranks']}, categories {record['wrong_classes_ranks']}")
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    run(main)
