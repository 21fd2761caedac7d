"""What a person wants, as a belief over the classes of a label that is kept through time by Bayes' rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mac_policy.common.folders import Checked

Floats = NDArray[np.float64]

IMPOSSIBLE = 1e-5
"""A class less likely than this, given the observation alone, is not believed."""
CHANGES = (0.01, 0.02, 0.05, 0.1, 0.2)
TEMPERINGS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7)
TEMPERATURES = (1.0, 1.5, 2.0, 3.0)
"""What `Belief.fit` chooses from."""


class Heard(NamedTuple):
    """What is known at a step of B rows: log p(k | observation) and log p(command | observation, k), (B, K) each."""

    prior: Floats
    command: Floats


class Belief(Checked, nn.Module):
    """The rule by which the belief b over the classes of one label moves from step to step:

        b'(k) ~ [(1 - change) b(k) + change p(k | o)] [p(k | o) > IMPOSSIBLE] p(command | o, k)^tempering

    where p(k | o) is the model's, at a `temperature`. Commands of neighbouring steps say nearly the same, which
    `tempering` corrects; `change` is how often a wish changes. All three are fitted to demonstrations that were not
    trained on.

    >>> belief = Belief()
    >>> heard = Heard(np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]]))
    >>> float(belief.update(np.array([[0.5, 0.5]]), heard)[0, 0]) > 0.5
    True
    """

    change: Tensor
    tempering: Tensor
    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, value in (("change", 0.05), ("tempering", 0.2), ("temperature", 1.0)):
            self.register_buffer(name, torch.tensor(value))

    def check(self) -> None:
        """ValueError unless the buffers are those of a rule."""
        for name, high in (("change", 1.0), ("tempering", math.inf), ("temperature", math.inf)):
            value = float(getattr(self, name))
            if not 0 <= value <= high or (name == "temperature" and value == 0):
                raise ValueError(f"{name} of a belief is {value}: it is damaged")

    def start(self, heard: Heard) -> Floats:
        """(B, K): the belief at the start of an episode, before any command."""
        return _tempered(heard.prior, float(self.temperature))

    def possible(self, log_prior: Floats) -> NDArray[np.bool_]:
        """(B, K): the classes that may be believed; all of them where none may."""
        found = _tempered(log_prior, float(self.temperature)) > IMPOSSIBLE
        return found | ~found.any(-1, keepdims=True)

    def update(
        self, before: Floats, heard: Heard, change: float | None = None, tempering: float | None = None
    ) -> Floats:
        """(B, K): the belief after this step; rows of `before` sum to one. None: as fitted."""
        change = float(self.change) if change is None else change
        tempering = float(self.tempering) if tempering is None else tempering
        return _update(before, heard, change, tempering, float(self.temperature))

    def through(self, heard: Heard) -> Floats:
        """(T, K): the beliefs along an episode of T steps."""
        believed = self.start(Heard(heard.prior[:1], heard.command[:1]))
        found = []
        for prior, command in zip(heard.prior[:, None], heard.command[:, None], strict=True):
            believed = self.update(believed, Heard(prior, command))
            found.append(believed[0])
        return np.stack(found)

    def fit(self, episodes: Sequence[tuple[Heard, NDArray[np.int64]]]) -> float:
        """Choose change, tempering and temperature by the log-likelihood of the true classes (T,) of episodes; steps
        whose class is not known (-1) do not count, and where none is, nothing is chosen. Returns the mean
        log-likelihood."""
        if all((truth < 0).all() for _, truth in episodes):
            return math.nan
        choices = np.array(list(itertools.product(CHANGES, TEMPERINGS, TEMPERATURES)))
        length, classes = max(len(truth) for _, truth in episodes), episodes[0][0].prior.shape[1]
        padded = np.zeros((2, len(episodes), length, classes))
        truths = np.full((len(episodes), length), -1)
        for row, (heard, truth) in enumerate(episodes):
            padded[0, row, : len(truth)], padded[1, row, : len(truth)] = heard
            truths[row, : len(truth)] = truth
        change, tempering, temperature = (column[:, None, None] for column in choices.T)
        believed = _tempered(padded[0, None, :, 0], temperature)
        total = np.zeros(len(choices))
        for step in range(length):
            heard = Heard(padded[0, None, :, step], padded[1, None, :, step])
            believed = _update(believed, heard, change, tempering, temperature)
            true = np.take_along_axis(believed, np.maximum(truths[None, :, step, None], 0), -1)[..., 0]
            total += np.where(truths[None, :, step] >= 0, np.log(np.maximum(true, 1e-12)), 0.0).sum(1)
        best = int(total.argmax())
        for name, value in zip(("change", "tempering", "temperature"), choices[best], strict=True):
            getattr(self, name).fill_(float(value))
        return float(total[best] / max((truths >= 0).sum(), 1))


def _tempered(log_prior: Floats, temperature: Floats | float) -> Floats:
    return _normalised(log_prior / temperature)


def _update(
    before: Floats, heard: Heard, change: Floats | float, tempering: Floats | float, temperature: Floats | float
) -> Floats:
    prior = _tempered(heard.prior, temperature)
    moved = (1 - change) * before + change * prior
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(prior > IMPOSSIBLE, moved, 0.0))
        possible = np.log(np.where(prior > IMPOSSIBLE, prior, 0.0))
    logs = np.where(np.isfinite(logs).any(-1, keepdims=True), logs, possible)
    return _normalised(logs + tempering * heard.command)


def _normalised(logs: Floats) -> Floats:
    weights = np.exp(logs - logs.max(-1, keepdims=True))
    found: Floats = weights / weights.sum(-1, keepdims=True)
    return found
