"""Which factorisation answers any evidence: equicorrelated Gaussians against the closed form.

For every set of evidence of N variables, all other variables are queried: the mean difference of the log-likelihood of
test rows, and the largest error of the standard deviations of samples. Every factorisation has the same rows, network
and budget; `table` is a TableModel with its own.

    python benchmarks/any_evidence.py --rows 10000 --steps 2000 --seeds 0 1
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.options import whole
from mac_policy import TableModel
from mac_policy.common.provenance import run_record, write_json
from mac_policy.core import AnyOrderModel, Factorization, MaskTuned, UniformCardinality, UniformOrder
from mac_policy.core.heads import GaussianMixture
from mac_policy.core.networks import MLP

N = 5
FACTORIZATIONS: dict[str, Factorization] = {
    "marginal": MaskTuned(UniformCardinality(N)),
    "both": MaskTuned(UniformCardinality(N), query="both"),
    "both-edge": MaskTuned(UniformCardinality(N), query="both", weights="edge"),
    "conditional": MaskTuned(UniformCardinality(N), query="conditional"),
    "uniform": UniformOrder(N),
}
BATCH = 256
TEST_ROWS, SAMPLED_ROWS, SAMPLES = 2000, 400, 20


def covariance(correlation: float) -> Tensor:
    return torch.full((N, N), correlation) + (1 - correlation) * torch.eye(N)


def closed_form(x: Tensor, query: list[int], given: list[int], correlation: float) -> tuple[Tensor, Tensor]:
    """log p(x_query | x_given) (R,) and the conditional standard deviations (q,)."""
    x, whole_covariance = x.double(), covariance(correlation).double()
    across = whole_covariance[query][:, given]
    gain = across @ torch.linalg.inv(whole_covariance[given][:, given])
    left = whole_covariance[query][:, query] - gain @ across.T
    normal = torch.distributions.MultivariateNormal(x[:, given] @ gain.T, left)
    return normal.log_prob(x[:, query]), left.diagonal().sqrt()


def trained(factorization: Factorization, rows: Tensor, steps: int, seed: int) -> AnyOrderModel:
    torch.manual_seed(seed)
    head = GaussianMixture(10)
    sizes = {"num_variables": N, "num_features": head.num_features, "num_params": head.num_params}
    model = AnyOrderModel(MLP(**sizes, width=128, depth=3, residual=True), head, validate=False)
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = rows[torch.randint(len(rows), (BATCH,), generator=draws)]
        loss = model.loss(x, factorization.training_masks(BATCH, draws))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def errors(
    model: AnyOrderModel, factorization: Factorization, test: Tensor, given: list[int], correlation: float
) -> dict[str, Any]:
    query = [i for i in range(N) if i not in given]
    mask = torch.zeros(N, dtype=torch.bool)
    mask[given] = True
    truth, deviations = closed_form(test, query, given, correlation)
    paths, draws = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    found = model.log_prob(test, query=~mask, given=mask, factorization=factorization, generator=paths)
    drawn = model.sample(
        test[:SAMPLED_ROWS], given=mask, factorization=factorization, generator=draws, num_samples=SAMPLES
    )
    spread = drawn.std(0).square().mean(0).sqrt()[query]
    off = float((spread / deviations - 1).abs().max())
    return {"given": given, "log_prob": float((found - truth).mean()), "deviation": off}


@torch.no_grad()
def table_errors(model: TableModel, test: Tensor, given: list[int], correlation: float) -> dict[str, Any]:
    """As `errors`, of a `TableModel`; the deviations are those of the conditionals of single columns."""
    query, names = [i for i in range(N) if i not in given], model.columns.names
    truth, deviations = closed_form(test, query, given, correlation)
    found = model.log_prob(test.double(), query=[names[i] for i in query], given=[names[i] for i in given])
    single = model.conditionals({names[i]: test[:SAMPLED_ROWS, i].double() for i in given} or None)
    spread = [float((single[names[i]].std ** 2).mean() ** 0.5) for i in query]
    off = float((torch.tensor(spread, dtype=torch.float64) / deviations - 1).abs().max())
    return {"given": given, "log_prob": float((torch.from_numpy(found) - truth).mean()), "deviation": off}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=whole(BATCH), default=10_000)
    parser.add_argument("--steps", type=whole(1), default=2000)
    parser.add_argument("--seeds", type=whole(0), nargs="+", default=[0, 1])
    names = [*FACTORIZATIONS, "table"]
    parser.add_argument("--models", nargs="+", choices=names, default=names, help="a factorisation, or TableModel")
    parser.add_argument("--correlation", type=float, default=0.8)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/any_evidence"), help="folder of results.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    factor = torch.linalg.cholesky(covariance(options.correlation))
    record = run_record(options.seeds[0]) | {"rows": []}
    for seed in options.seeds:
        g = torch.Generator().manual_seed(100 + seed)
        rows = torch.randn(options.rows, N, generator=g) @ factor.T
        test = torch.randn(TEST_ROWS, N, generator=g) @ factor.T
        sets = [list(given) for size in range(N) for given in combinations(range(N), size)]
        for name in options.models:
            if name == "table":
                table = TableModel(random_state=seed).fit(rows.double())
                found = [table_errors(table, test, given, options.correlation) for given in sets]
            else:
                factorization = FACTORIZATIONS[name]
                model = trained(factorization, rows, options.steps, seed)
                found = [errors(model, factorization, test, given, options.correlation) for given in sets]
            mean = sum(each["log_prob"] for each in found) / len(found)
            worst = min(found, key=lambda each: each["log_prob"])
            widest = max(found, key=lambda each: each["deviation"])
            print(
                f"seed {seed}, {name:12} log p: mean {mean:+.4f}, worst {worst['log_prob']:+.3f} given "
                f"{worst['given']}; standard deviation: worst {widest['deviation']:.1%} given {widest['given']}",
                flush=True,
            )
            record["rows"].append({"seed": seed, "factorization": name, "evidence": found})
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    main()
