"""A model of rows: what training draws for it, its loss, its likelihoods and its samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class RowModel(nn.Module, ABC):
    """A model of rows x (B, N): any-order models and baselines answer the same questions.

    Masks are bool (B, N), or (N,) for all rows. A missing value is in no mask and may be anything, NaN included.

    >>> from mac_policy.rows.spec import ModelSpec, build
    >>> model = build(ModelSpec("mac", (9,), None, {"kind": "mlp", "width": 8}, {"kind": "gaussian"}))
    >>> model(torch.zeros(2, 9), model.draw(2, torch.Generator())).shape
    torch.Size([])
    """

    num_variables: int
    rows_per_pass: int
    """Rows that a network reads at once where no gradient is requested."""
    densities: tuple[str, ...]
    """The names of what `log_prob` gives; 'model' is the one to compare."""
    any_query: bool = True
    """Whether `log_prob` answers every query; otherwise it answers whole rows, given nothing."""
    modes: tuple[str, ...] = ()
    """The activation modes that the network was trained in."""

    def in_mode(self, mode: str) -> RowModel:
        """The same model, asked along the paths of another mode of staged activation."""
        raise ValueError(f"mode {mode!r}: this model is not trained in modes")

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Any:
        """The random draws of a training step on n rows: one tensor (n, ...), or a NamedTuple with `to(device)`."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        draws: Any,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        """The mean loss of rows x (B, N), a scalar.

        energy_weight: of a head with an energy, 0 while its proposal is trained alone; missing: bool (B, N), values
        that do not exist, which are neither evidence nor queried.
        """

    @abstractmethod
    def log_prob(
        self,
        x: Tensor,
        *,
        query: Tensor,
        given: Tensor,
        generator: torch.Generator | None = None,
        orders: int = 1,
        steps: int | None = None,
        step_generator: torch.Generator | None = None,
    ) -> Mapping[str, Tensor]:
        """log p(x_query | x_given) in nats of every row (B,), by each of `densities`.

        orders: random paths whose probabilities are averaged; steps: estimate a longer path from so many of its steps.
        """

    @abstractmethod
    def sample(
        self,
        x: Tensor,
        *,
        given: Tensor,
        num_samples: int = 1,
        steps: int | None = None,
        temperature: float = 1.0,
        missing: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """x with all variables drawn that are neither given nor missing; (B, N), or (num_samples, B, N) if > 1."""

    def impute(
        self, x: Tensor, *, given: Tensor, num_samples: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draws of all variables that are not given, (B, num_samples, N). Given values stay as they are in x (B, N)."""
        found = self.sample(x, given=given, num_samples=num_samples, generator=generator)
        return found.view(num_samples, *x.shape).transpose(0, 1)


class AnyOrderRows(RowModel):
    """An any-order model, and the factorisation that it is trained for and asked along."""

    def __init__(self, model: AnyOrderModel, factorization: Factorization) -> None:
        super().__init__()
        self.model, self.factorization = model, factorization
        self.num_variables = model.num_variables
        self.densities = tuple(views(model))
        if isinstance(factorization, StagedModes):
            self.modes = factorization.modes

    @property
    def rows_per_pass(self) -> int:
        """Rows that a network reads at once."""
        return self.model.rows_per_pass

    @rows_per_pass.setter
    def rows_per_pass(self, rows: int) -> None:
        self.model.rows_per_pass = rows

    def in_mode(self, mode: str) -> AnyOrderRows:
        if not isinstance(self.factorization, StagedModes):
            raise ValueError(f"mode {mode!r}: this model is not trained in modes")
        return AnyOrderRows(self.model, self.factorization.at(mode)).train(self.training)

    def draw(self, n: int, generator: torch.Generator) -> Draws:
        """Masks for a set network, whole paths for a path network."""
        return self.model.asking.draw(self.factorization, n, generator)

    def forward(
        self,
        x: Tensor,
        draws: Draws,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        if isinstance(self.model.head, EnergyTilted):
            self.model.head.energy_weight = energy_weight
        return self.model.loss(x, draws, generator=generator, missing=missing)

    @torch.no_grad()
    def log_prob(
        self,
        x: Tensor,
        *,
        query: Tensor,
        given: Tensor,
        generator: torch.Generator | None = None,
        orders: int = 1,
        steps: int | None = None,
        step_generator: torch.Generator | None = None,
    ) -> Mapping[str, Tensor]:
        """The estimate from `steps` steps has no bias. A path network answers whole paths, whatever `steps` is."""
        found: dict[str, Tensor] = {}
        for name, view in views(self.model).items():
            paths = generator and generator.clone_state()  # every density sees the same paths and steps
            if steps is None or self.model.asking.whole_paths:
                found[name] = view.log_prob(
                    x,
                    query=query,
                    given=given,
                    factorization=self.factorization,
                    orders=orders,
                    generator=paths,
                )
            else:
                found[name] = estimated_log_prob(
                    view,
                    x,
                    query=query,
                    given=given,
                    factorization=self.factorization,
                    steps=steps,
                    generator=paths,
                    step_generator=step_generator and step_generator.clone_state(),
                )
        return found

    def sample(self, x: Tensor, *, given: Tensor, **options: Any) -> Tensor:
        return self.model.sample(x, given=given, factorization=self.factorization, **options)


def rows_of(draws: Any, rows: slice) -> Any:
    """The draws of some rows of a batch."""
    return draws[rows] if isinstance(draws, Tensor) else map_tensors(lambda part: part[rows], draws)
