"""A model of rows: what training draws for it, its loss, its likelihoods and its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from mac_policy.core import AnyOrderModel, Factorization, StagedModes
from mac_policy.core.heads import EnergyTilted
from mac_policy.core.training_draws import TrainingDraws, map_tensors
from mac_policy.rows.densities import views
from mac_policy.rows.estimate import estimated_log_prob

Draws: TypeAlias = TrainingDraws


class RowModel(nn.Module):
    """An any-order model and the factorisation it is trained for and asked along.

    `forward` is the loss of a batch, so that it can be trained by any loop and on any number of processes.

    >>> from mac_policy.core import MaskTuned, UniformCardinality
    >>> from mac_policy.core.heads import GaussianMixture
    >>> from mac_policy.core.networks import MLP
    >>> head = GaussianMixture(5)
    >>> network = MLP(num_variables=9, num_features=head.num_features, num_params=head.num_params)
    >>> model = RowModel(AnyOrderModel(network, head), MaskTuned(UniformCardinality(9)))
    >>> model(torch.zeros(2, 9), model.draw(2, torch.Generator())).shape
    torch.Size([])
    """

    any_query = True  # and not whole rows alone

    def __init__(self, model: AnyOrderModel, factorization: Factorization) -> None:
        super().__init__()
        self.model, self.factorization = model, factorization

    @property
    def num_variables(self) -> int:
        return self.model.num_variables

    @property
    def rows_per_pass(self) -> int:
        """The size of a network pass."""
        return self.model.rows_per_pass

    @rows_per_pass.setter
    def rows_per_pass(self, rows: int) -> None:
        self.model.rows_per_pass = rows

    @property
    def modes(self) -> tuple[str, ...]:
        """The activation modes that the network was trained in; () where there are none."""
        return self.factorization.modes if isinstance(self.factorization, StagedModes) else ()

    def in_mode(self, mode: str) -> RowModel:
        """The same model, asked along the paths of another mode (of staged activation)."""
        if not isinstance(self.factorization, StagedModes):
            raise ValueError(f"mode {mode!r}: this model is not trained in modes")
        return RowModel(self.model, self.factorization.at(mode)).train(self.training)

    @property
    def densities(self) -> tuple[str, ...]:
        """The names of what `log_prob` gives."""
        return tuple(views(self.model))

    def draw(self, n: int, generator: torch.Generator) -> Draws:
        """The random numbers of a training step on n rows: masks for a set network, whole paths for a path network."""
        return self.model.asking.draw(self.factorization, n, generator)

    def forward(
        self,
        x: Tensor,
        draws: Draws,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        """The mean loss of rows x (B, N). `energy_weight`: of a head with an energy, 0 while its proposal warms up;
        `missing` (B, N): values that are not there, and are neither shown nor asked for."""
        if isinstance(self.model.head, EnergyTilted):
            self.model.head.energy_weight = energy_weight
        return self.model.loss(x, draws, generator=generator, missing=missing)

    @torch.no_grad()
    def log_prob(
        self,
        x: Tensor,
        query: Tensor,
        given: Tensor,
        *,
        generator: torch.Generator | None = None,
        orders: int = 1,
        steps: int | None = None,
        step_generator: torch.Generator | None = None,
    ) -> Mapping[str, Tensor]:
        """log p(x_query | x_given) of every row (B,), by every density the head has ('model', 'proposal', ...).

        `steps` below the length of a path estimates its sum, without bias, from that many of its steps; a path network
        answers all of them anyway.
        """
        found: dict[str, Tensor] = {}
        for name, view in views(self.model).items():
            if steps is None or self.model.asking.whole_paths:
                values = view.log_prob(
                    x,
                    query=query,
                    given=given,
                    factorization=self.factorization,
                    orders=orders,
                    generator=_same(generator),
                )
            else:
                values = estimated_log_prob(
                    view,
                    x,
                    query=query,
                    given=given,
                    factorization=self.factorization,
                    steps=steps,
                    generator=_same(generator),
                    step_generator=_same(step_generator),
                )
            found[name] = values
        return found

    def sample(self, x: Tensor, given: Tensor, **options: Any) -> Tensor:
        """x with all that is not given drawn, as `AnyOrderModel.sample`."""
        return self.model.sample(x, given=given, factorization=self.factorization, **options)

    def impute(
        self, x: Tensor, seen: Tensor, *, num_samples: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draws of all that is not seen, given what is (B, S, N); what is seen stays as it is in x (B, N)."""
        found = self.sample(x, seen, num_samples=num_samples, generator=generator)
        return found.view(num_samples, *x.shape).transpose(0, 1)


def rows_of(draws: Draws, rows: slice) -> Draws:
    """The draws of some rows of a batch."""
    return map_tensors(lambda part: part[rows], draws)


def _same(generator: torch.Generator | None) -> torch.Generator | None:
    """A copy in the same state: every density sees the same paths."""
    if generator is None:
        return None
    copy = torch.Generator(device=generator.device)
    copy.set_state(generator.get_state())
    return copy
