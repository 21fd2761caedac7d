"""Questions about test rows: a query mask and a given mask for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.common.settings import Count, Natural, Settings, choice
from mac_policy.core.masks import Bernoulli, UniformCardinality
from mac_policy.rows.patterns import MODES, given_by_pattern, split_pattern
from mac_policy.training.streams import stream

QUERIES = ("joint", "marginal", "conditional")


class Queries(NamedTuple):
    """A query and a given mask for each row, (R, N) bool.

    mode: the mode of staged activation that fills the query last, None for other queries
    """

    query: Tensor
    given: Tensor
    mode: str | None = None


@dataclass(frozen=True)
class EvaluationSettings(Settings):
    """The settings of an evaluation.

    rows: evaluated test rows (0: all); steps: evaluated steps of a path (0: all; fewer give an unbiased estimate)
    queries: kinds of queries, among 'joint' (always), 'marginal' and 'conditional'
    orders: random orders over which an arm with random paths averages
    cardinalities: cardinalities of additional marginal queries
    conditional: law of the evidence of conditional queries: 'uniform' in cardinality, or 'bernoulli' (probability 1/2)
    missing: patterns of missing variables, which are queried given all others: 'left', 'random-0.5', ...
    importance_samples: importance samples of an arm with a latent vector on test rows (0: as in training)
    whole_pixels: marginals and conditionals contain all channels of a pixel or none, and `cardinalities` count pixels;
        true for all arms of a comparison with a staged arm, because staged arms are trained with whole pixels
    curve_rows, curve_steps: rows and steps of the validation curve along training
    rows_per_pass: rows in one network pass
    """

    prefix: ClassVar[str] = "evaluation."

    rows: Natural = 0
    steps: Natural = 0
    queries: tuple[Annotated[str, choice(QUERIES, "query")], ...] = QUERIES
    orders: Count = 1
    cardinalities: tuple[Count, ...] = ()
    conditional: Literal["uniform", "bernoulli"] = "uniform"
    missing: tuple[str, ...] = ()
    importance_samples: Natural = 0
    whole_pixels: bool = False
    curve_rows: Count = 64
    curve_steps: Count = 8
    rows_per_pass: Count = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        for pattern in self.missing:
            split_pattern(pattern)
        if self.orders > 1 and self.steps:
            raise ValueError(
                f"evaluation orders={self.orders} averages probabilities of whole paths: it needs steps=0 (all of "
                f"them), got steps={self.steps}"
            )


def joint(rows: int, num_variables: int) -> Queries:
    """Query all variables, without evidence."""
    everything = torch.ones(rows, num_variables, dtype=torch.bool)
    return Queries(everything, ~everything)


def marginal(rows: int, num_variables: int, cardinality: int | None = None, channels: int = 1) -> Queries:
    """Query a uniform subset without evidence: the test masks of the papers.

    The cardinality is uniform in 1..N, or fixed by `cardinality`. With `channels` > 1, the subset consists of whole
    pixels of an image.
    """
    places = num_variables // channels
    size = (1, places) if cardinality is None else (cardinality, cardinality)
    query = UniformCardinality(places, *size).sample(rows, stream(0, f"marginal {cardinality}")).repeat(1, channels)
    return Queries(query, query & False)


def conditional(rows: int, num_variables: int, evidence: str = "uniform", channels: int = 1) -> Queries:
    """Query all variables that are not given.

    The given variables have a cardinality uniform in 0..N-1 ('uniform') or a probability of 1/2 each ('bernoulli').
    With `channels` > 1, they are whole pixels of an image.
    """
    places = num_variables // channels
    law = Bernoulli(places, 0.5) if evidence == "bernoulli" else UniformCardinality(places, 0, places - 1)
    given = law.sample(rows, stream(0, f"conditional {evidence}")).repeat(1, channels)
    return Queries(~given, given)


def missing(rows: int, shape: Sequence[int], pattern: str) -> Queries:
    """Query the variables that a pattern leaves out, given all others."""
    kind, share = split_pattern(pattern)
    given = given_by_pattern(kind, share, rows, shape, stream(0, f"missing {pattern}"))
    if bool(given.all(1).any()):
        raise ValueError(
            f"evaluation.missing: {pattern!r} leaves out none of {math.prod(shape)} variables, so that the query "
            "is empty; choose a larger share or another pattern"
        )
    return Queries(~given, given, MODES.get(kind))


def evaluation_queries(rows: int, shape: Sequence[int], settings: EvaluationSettings) -> dict[str, Queries]:
    """All questions about test rows, by name. The masks are the same for every arm and seed."""
    num_variables = math.prod(shape)
    together = shape[0] if settings.whole_pixels and len(shape) == 3 else 1  # the channels of a pixel
    found = {"joint": joint(rows, num_variables)}
    if "marginal" in settings.queries:
        found["marginal"] = marginal(rows, num_variables, channels=together)
    if "conditional" in settings.queries:
        found["conditional"] = conditional(rows, num_variables, settings.conditional, together)
    for cardinality in settings.cardinalities:
        if not 1 <= check_count("cardinality", cardinality) <= num_variables // together:
            raise ValueError(f"cardinalities must be in 1..{num_variables // together}, got {cardinality}")
        found[f"marginal-{cardinality}"] = marginal(rows, num_variables, cardinality, together)
    return found | {f"missing-{pattern}": missing(rows, shape, pattern) for pattern in settings.missing}


def curve_queries(rows: int, shape: Sequence[int], settings: EvaluationSettings) -> dict[str, Queries]:
    """The questions of the validation curve along training."""
    along = EvaluationSettings(queries=("joint", "marginal"), whole_pixels=settings.whole_pixels)
    return evaluation_queries(rows, shape, along)
