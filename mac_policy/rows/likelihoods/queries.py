"""What a model is asked about test rows: a query and what is given, for each row of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count, check_list
from mac_policy.core.masks import Bernoulli, MaskDistribution, UniformCardinality
from mac_policy.rows.patterns import MODES, given_by_pattern, split_pattern
from mac_policy.training.streams import stream

QUERIES = ("joint", "marginal", "conditional")
CONDITIONAL_EVIDENCE = ("uniform", "bernoulli")


class Queries(NamedTuple):
    """One of each row. (R, N) bool both. mode: of staged activation, which fills what is asked last."""

    query: Tensor
    given: Tensor
    mode: str | None = None


@dataclass(frozen=True)
class EvaluationSettings:
    """rows: test rows looked at (0: all); steps: of a path that are looked at (0: all; fewer are an unbiased estimate)
    queries: which kinds are asked of test rows, of 'joint', 'marginal' and 'conditional'; the joint always is
    orders: random orders that an arm with random paths averages over
    cardinalities: further marginals, of exactly so many variables each
    conditional: the evidence of conditional queries, 'uniform' in its cardinality or 'bernoulli' with probability 1/2
    missing: patterns of what is missing, asked for given all else: 'left', 'interior', 'random-0.5' (see `patterns`)
    importance_samples: of an arm with a latent vector on test rows (0: as many as it has along training)
    whole_pixels: marginals and conditionals take all channels of an image's pixel together, and `cardinalities` count
        pixels; a comparison with an arm of staged activation, which does so in training, always asks so (of every arm)
    curve_rows, curve_steps: the same for the curve along training, on validation rows
    rows_per_pass: the size of a network pass
    """

    rows: int = 0
    steps: int = 0
    queries: tuple[str, ...] = QUERIES
    orders: int = 1
    cardinalities: tuple[int, ...] = ()
    conditional: str = "uniform"
    missing: tuple[str, ...] = ()
    importance_samples: int = 0
    whole_pixels: bool = False
    curve_rows: int = 64
    curve_steps: int = 8
    rows_per_pass: int = 512

    def __post_init__(self) -> None:
        for name in ("rows", "steps", "importance_samples"):
            check_count(f"evaluation {name}", getattr(self, name), 0)
        for name in ("orders", "curve_rows", "curve_steps", "rows_per_pass"):
            check_count(f"evaluation {name}", getattr(self, name))
        for name in ("queries", "cardinalities", "missing"):
            check_list(f"evaluation.{name}", getattr(self, name))
        if not isinstance(self.whole_pixels, bool):
            raise ValueError(f"evaluation.whole_pixels must be true or false, got {self.whole_pixels!r}")
        check_choice("conditional evidence", self.conditional, CONDITIONAL_EVIDENCE)
        for query in self.queries:
            check_choice("query", query, QUERIES)
        for pattern in self.missing:
            split_pattern(pattern)
        if self.orders > 1 and self.steps:
            raise ValueError(
                f"evaluation orders={self.orders} averages probabilities of whole paths: it needs steps=0 (all of "
                f"them), got steps={self.steps}"
            )


def joint(rows: int, num_variables: int) -> Queries:
    """Everything, given nothing."""
    everything = torch.ones(rows, num_variables, dtype=torch.bool)
    return Queries(everything, ~everything)


def marginal(rows: int, num_variables: int, cardinality: int | None = None, channels: int = 1) -> Queries:
    """A cardinality uniform in 1..N (or this one), a uniform subset of it, given nothing: the papers' test masks.

    Of images with `channels` that go together, a subset of the pixels.
    """
    places = num_variables // channels
    size = (1, places) if cardinality is None else (cardinality, cardinality)
    query = UniformCardinality(places, *size).sample(rows, stream(0, f"marginal {cardinality}")).repeat(1, channels)
    return Queries(query, query & False)


def conditional(rows: int, num_variables: int, evidence: str = "uniform", channels: int = 1) -> Queries:
    """All the rest, given evidence of a cardinality uniform in 0..N-1, or of each variable with probability 1/2.

    Of images with `channels` that go together, evidence of whole pixels.
    """
    places = num_variables // channels
    law: MaskDistribution = UniformCardinality(places, 0, places - 1)
    if evidence == "bernoulli":
        law = Bernoulli(places, 0.5)
    given = law.sample(rows, stream(0, f"conditional {evidence}")).repeat(1, channels)
    return Queries(~given, given)


def missing(rows: int, shape: Sequence[int], pattern: str) -> Queries:
    """What is missing by a pattern, given all the rest."""
    kind, share = split_pattern(pattern)
    given = given_by_pattern(kind, share, rows, shape, stream(0, f"missing {pattern}"))
    if bool(given.all(1).any()):
        raise ValueError(
            f"evaluation.missing: {pattern!r} leaves out none of {math.prod(shape)} variables, so that nothing would "
            "be asked for; name a larger share or another pattern"
        )
    return Queries(~given, given, MODES.get(kind))


def evaluation_queries(rows: int, shape: Sequence[int], settings: EvaluationSettings) -> dict[str, Queries]:
    """All that is asked of test rows, by name. The masks are the same for every arm and seed."""
    num_variables, together = math.prod(shape), channels_together(shape, settings)
    found = {"joint": joint(rows, num_variables)}
    if "marginal" in settings.queries:
        found["marginal"] = marginal(rows, num_variables, channels=together)
    if "conditional" in settings.queries:
        found["conditional"] = conditional(rows, num_variables, settings.conditional, together)
    for cardinality in cardinalities(settings, num_variables // together):
        found[f"marginal-{cardinality}"] = marginal(rows, num_variables, cardinality, together)
    return found | {f"missing-{pattern}": missing(rows, shape, pattern) for pattern in settings.missing}


def curve_queries(rows: int, shape: Sequence[int], settings: EvaluationSettings) -> dict[str, Queries]:
    """What is asked along training."""
    num_variables = math.prod(shape)
    return {
        "joint": joint(rows, num_variables),
        "marginal": marginal(rows, num_variables, channels=channels_together(shape, settings)),
    }


def channels_together(shape: Sequence[int], settings: EvaluationSettings) -> int:
    """How many variables are asked for or given together: the channels of a pixel, or one alone."""
    return shape[0] if settings.whole_pixels and len(shape) == 3 else 1


def cardinalities(settings: EvaluationSettings, most: int) -> Sequence[int]:
    for cardinality in settings.cardinalities:
        if not 1 <= check_count("cardinality", cardinality) <= most:
            raise ValueError(f"cardinalities must be in 1..{most}, got {cardinality}")
    return settings.cardinalities
