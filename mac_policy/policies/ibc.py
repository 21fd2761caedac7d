"""Implicit behaviour cloning (Florence et al., 2021): an energy over (observation, action).

Training is InfoNCE against counter-examples drawn over the action bounds; acting minimises the energy, by default
with the derivative-free optimiser: samples, resampling by their softmax, shrinking noise. Given dims stay fixed while
the others are optimised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from mac_policy.common.settings import Count, Depth, Natural, NonNegative, Share, Size
from mac_policy.core.frame import Frame
from mac_policy.policies.bc import mlp
from mac_policy.policies.policy import Policy
from mac_policy.policies.request import Request
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces


@dataclass(frozen=True)
class IBCSettings(PolicySettings):
    """width, depth: of the energy network, after a first layer that adds observation and action
    counter_examples: for each demonstrated action, uniform over the bounds
    counter_steps: Langevin steps that make the counter-examples harder (0 = none)
    optimizer: 'derivative_free' or 'langevin', at inference
    samples, rounds: of the optimiser (published: 16384 and 3)
    noise, shrink: first noise, as a fraction of half the action range, and its factor from round to round
    langevin_steps, langevin_step: steps at inference and the first step's size, in the same unit
    """

    width: Size = 512
    depth: Depth = 4
    counter_examples: Count = 64
    counter_steps: Natural = 0
    optimizer: Literal["derivative_free", "langevin"] = "derivative_free"
    samples: Count = 16384
    rounds: Count = 3
    noise: NonNegative = 0.33
    shrink: Share = 0.5
    langevin_steps: Count = 50
    langevin_step: NonNegative = 0.1


class IBCDraws(NamedTuple):
    """The random numbers of IBC's loss."""

    counter_examples: Tensor  # (n, S, variables), uniform in [0, 1)
    noise: Tensor | None  # (n, steps, S, variables), standard normal, of the Langevin steps


class IBC(Policy):
    """E(o, a) = network(W_o o + W_a a): the part of the observation is computed once for all samples of a row."""

    kind: ClassVar[str] = "ibc"
    settings_class: ClassVar[type[PolicySettings]] = IBCSettings
    settings: IBCSettings

    def __init__(self, spaces: Spaces, settings: IBCSettings) -> None:
        super().__init__(spaces, settings)
        s = settings
        self.read_observation = nn.Linear(s.history * self.observation_dim, s.width)
        self.read_action = nn.Linear(len(self.variables), s.width, bias=False)
        # A constant added to every energy changes nothing: the last layer has no bias.
        self.network = nn.Sequential(nn.ReLU(), mlp(s.width, s.width, s.depth, 1, bias=False))

    def energy(self, encoded: Tensor, actions: Tensor, frame: Frame | None = None) -> Tensor:
        """encoded (B, width), actions (B, S, variables) normalised -> (B, S); an absolute policy reads their places."""
        places = actions if frame is None else frame.from_location(actions)
        energy: Tensor = self.network(encoded[:, None] + self.read_action(places)).squeeze(-1)
        return energy.float()

    # ---- training ----

    def own_draws(self, n: int, generator: torch.Generator) -> IBCDraws:
        s = self.settings
        size = (n, s.counter_examples, len(self.variables))
        counter_examples, noise = torch.rand(size, generator=generator), None
        if s.counter_steps:
            noise = torch.randn((n, s.counter_steps, *size[1:]), generator=generator)
        return IBCDraws(counter_examples, noise)

    def loss(
        self, context: Tensor, actions: Tensor, inside: Tensor, draws: IBCDraws, frame: Frame | None = None
    ) -> Tensor:
        low, high = self.variables.bounds()
        encoded = self.read_observation(context)
        counter = low + (high - low) * draws.counter_examples
        if draws.noise is not None:
            fixed = torch.zeros_like(counter, dtype=torch.bool)
            counter = self._langevin(encoded.detach(), counter, fixed, draws.noise.transpose(0, 1), frame)
        energies = self.energy(encoded, torch.cat([actions[:, None], counter], dim=1), frame)
        whole = (inside > 0).all(1).to(energies.dtype)  # a chunk that ends beyond its episode has no label
        return (whole * (energies[:, 0] + torch.logsumexp(-energies, dim=1))).sum() / whole.sum().clamp(min=1)

    # ---- acting ----

    def plan(
        self, context: Tensor, values: Tensor, given: Tensor, request: Request, frame: Frame | None = None
    ) -> Tensor:
        # One set of random numbers serves all rows, so that a batch answers as its rows do one by one.
        generator = torch.Generator().manual_seed(0) if request.deterministic else request.generator
        encoded = self.read_observation(context)
        s, (low, high) = self.settings, self.variables.bounds()
        count = s.samples if s.optimizer == "derivative_free" else s.counter_examples
        unit = torch.rand((1, count, len(self.variables)), generator=generator).to(context.device)
        samples = torch.where(given[:, None], values[:, None], low + (high - low) * unit)
        if s.optimizer == "langevin":
            noise = torch.randn((s.langevin_steps, 1, count, len(self.variables)), generator=generator)
            samples = self._langevin(encoded, samples, given[:, None], noise.to(context.device), frame)
        else:
            samples = self._derivative_free(encoded, samples, given[:, None], generator, frame)
        best = self.energy(encoded, samples, frame).argmin(1)
        return samples[torch.arange(len(samples), device=best.device), best]

    def _derivative_free(
        self, encoded: Tensor, samples: Tensor, fixed: Tensor, generator: torch.Generator, frame: Frame | None
    ) -> Tensor:
        """Rounds of resampling by softmax(-E) and gaussian noise that shrinks."""
        s, (low, high) = self.settings, self.variables.bounds()
        scale, count = s.noise, samples.shape[1]
        for _ in range(s.rounds):
            weights = torch.softmax(-self.energy(encoded, samples, frame).double(), dim=1).cumsum(1)
            points = ((torch.arange(count) + torch.rand(1, generator=generator)) / count).double()
            # Systematic resampling: one offset, evenly spaced points on the cumulated weights.
            chosen = torch.searchsorted(weights, points.to(weights.device).expand(len(weights), -1).contiguous())
            chosen = chosen.clamp(max=count - 1)[..., None].expand_as(samples)
            noise = torch.randn((1, count, len(self.variables)), generator=generator).to(samples.device)
            moved = samples.gather(1, chosen) + scale * (high - low) / 2 * noise
            samples = torch.where(fixed, samples, moved.clamp(low, high))
            scale *= s.shrink
        return samples

    def _langevin(self, encoded: Tensor, samples: Tensor, fixed: Tensor, noise: Tensor, frame: Frame | None) -> Tensor:
        """a <- a - step (dE/da / 2) + step * noise in units of half the range, the step falling to zero as a
        square; noise (steps, B or 1, S, variables)."""
        low, high = self.variables.bounds()
        half = (high - low) / 2
        with torch.inference_mode(False), torch.enable_grad():
            encoded, start, fixed = encoded.detach().clone(), samples.detach().clone(), fixed.clone()
            frame = None if frame is None else Frame(frame.shift.clone(), frame.scale.clone())
            current = start
            for i, kick in enumerate(noise):
                step = self.settings.langevin_step * (1 - i / len(noise)) ** 2
                current = current.detach().requires_grad_()
                gradient = torch.autograd.grad(self.energy(encoded, current, frame).sum(), current)[0]
                with torch.no_grad():
                    change = step * (kick - (gradient * half).clamp(-1.0, 1.0) / 2)
                    current = torch.where(fixed, start, (current + half * change).clamp(low, high))
        return current.detach()
