"""MAC as a policy: an any-order model of the action (or a chunk of actions) given the observation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.deprecation import renamed_keywords
from mac_policy.common.settings import check_range
from mac_policy.core.factorization import MaskTuned
from mac_policy.core.heads import GaussianMixture
from mac_policy.core.masks import FixedMasks, MaskDistribution, UniformCardinality
from mac_policy.core.model import AnyOrderModel
from mac_policy.core.networks import MLP, Network, TrunkQuery
from mac_policy.core.training_draws import TrainingMasks
from mac_policy.policies import decoding, inputs
from mac_policy.policies import quick_trunk as lean
from mac_policy.policies.operator_masks import operator_masks, path_order
from mac_policy.policies.policy import Policy, Request
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces
from mac_policy.policies.state import PolicyState


@dataclass(frozen=True)
class MACSettings(PolicySettings):
    """width, depth: of the trunk, which reads the observation once
    query_width, query_depth: of the network that is asked once for each dimension filled in
    components, min_log_std: of the mixture for each dimension, and the floor of its log standard deviation in
        normalised units (null = none worth the name)
    masks: training masks for the 'conditional' query (the operator's dims are evidence), 'marginal' or 'both'
    subsets: the operator's subsets to train for, as lists of action dims ([] = all subsets, cardinality uniform)
    alone: share of the training rows with no operator, for full autonomy; their evidence is the policy's own
    weights, reweighting: as MaskTuned's `weights` and `cardinality_reweighting`
    order: action dims in the order they are filled in ([] = 0, 1, ...); a chunk goes step by step
    evidence_noise: in rows with an operator, who is no demonstrator, the evidence is noised in training with a
        standard deviation from U(0, this)
    masks_per_row: masks that each training row is asked with; the trunk reads its observation once for all of them
    decode: 'mode', 'sample', 'mean', or 'best' of `candidates` samples by likelihood
    temperature: of samples
    noise: a sample's randomness is 'fresh' at every step, held for an 'episode', or 'slow' (an AR(1) process with
        `noise_correlation` from step to step)
    stickiness: 'best' also likes a small change from the last action; nats for one squared standard deviation
    """

    width: int = 512
    depth: int = 4
    query_width: int = 512
    query_depth: int = 3
    components: int = 20
    min_log_std: float | None = -1.5
    masks: str = "conditional"
    subsets: tuple[tuple[int, ...], ...] = ()
    alone: float = 0.5
    weights: str = "parallel"
    reweighting: bool = True
    order: tuple[int, ...] = ()
    evidence_noise: float = 0.5
    masks_per_row: int = 4
    decode: str = "mode"
    temperature: float = 1.0
    candidates: int = 16
    noise: str = "fresh"
    noise_correlation: float = 0.98
    stickiness: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("masks", self.masks, ("conditional", "marginal", "both"))
        check_choice("decode", self.decode, decoding.KINDS)
        check_choice("noise", self.noise, ("fresh", "episode", "slow"))
        check_choice("weights", self.weights, ("parallel", "edge"))
        for name in ("width", "depth", "query_width", "query_depth", "components", "candidates", "masks_per_row"):
            check_count(name, getattr(self, name))
        for name in ("evidence_noise", "temperature", "stickiness"):
            check_range(name, getattr(self, name), 0.0)
        for name in ("alone", "noise_correlation"):
            check_range(name, getattr(self, name), 0.0, 1.0)


@dataclass(frozen=True)
class MACPaperSettings(MACSettings):
    """As the paper has it: one MLP of width 2048 and depth 8 asked once a dimension, marginal masks, no floor."""

    width: int = 2048
    depth: int = 8
    min_log_std: float | None = None
    masks: str = "marginal"
    alone: float = 0.0
    evidence_noise: float = 0.0
    masks_per_row: int = 1
    decode: str = "sample"


class MAC(Policy):
    """p(action dims left | action dims commanded, observation), dimension after dimension."""

    kind: ClassVar[str] = "mac"
    settings_class: ClassVar[type[PolicySettings]] = MACSettings
    has_likelihood: ClassVar[bool] = True
    settings: MACSettings

    def __init__(self, spaces: Spaces, settings: MACSettings) -> None:
        super().__init__(spaces, settings)
        self.head = GaussianMixture(settings.components, settings.min_log_std)
        self.model = AnyOrderModel(self._network(self.head), self.head, validate=False)
        self.order = path_order(settings.order, self.action_dim, settings.horizon)
        self._dims: list[int] = self.order.tolist()
        self.factorization = self._paths(
            settings.masks, operator_masks(self.action_dim, settings.horizon, settings.subsets, alone=0.0)
        )
        nothing = FixedMasks(torch.zeros(1, self.variables, dtype=torch.bool))
        self.alone = self._paths("conditional", nothing) if settings.alone else None

    def _paths(self, query: str, held: MaskDistribution) -> MaskTuned:
        s = self.settings
        return MaskTuned(
            UniformCardinality(self.variables),
            evidence_masks=held,
            order=self.order,
            query=query,
            weights=s.weights,
            cardinality_reweighting=s.reweighting,
        )

    def _network(self, head: GaussianMixture) -> Network:
        s = self.settings
        return TrunkQuery(
            num_variables=self.variables,
            num_features=head.num_features,
            num_params=head.num_params,
            context_dim=s.history * self.observation_dim,
            trunk_width=s.width,
            trunk_depth=s.depth,
            query_width=s.query_width,
            query_depth=s.query_depth,
        )

    # ---- training ----

    def draw(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        draws = super().draw(n, generator)
        rows = n * self.settings.masks_per_row
        masks = self.factorization.training_masks(rows, generator)
        evidence, weights = masks.evidence, masks.weights
        held = torch.ones(rows, 1)
        if self.alone is not None:
            own = self.alone.training_masks(rows, generator)
            held = (torch.rand((rows, 1), generator=generator) >= self.settings.alone).float()
            evidence = torch.where(held > 0, evidence, own.evidence)
            weights = torch.where(held > 0, weights, own.weights)
        found = {"evidence": evidence, "weights": weights}
        if self.settings.evidence_noise:
            scale = self.settings.evidence_noise * held * torch.rand((rows, 1), generator=generator)
            found["evidence_noise"] = scale * torch.randn((rows, self.variables), generator=generator)
        return draws | {name: value.unflatten(0, (n, -1)) for name, value in found.items()}  # (n, masks_per_row, N)

    def loss(self, context: Tensor, actions: Tensor, inside: Tensor, draws: dict[str, Tensor]) -> Tensor:
        k = self.settings.masks_per_row
        masks = TrainingMasks(draws["evidence"].flatten(0, 1), draws["weights"].flatten(0, 1))
        actions, inside = actions.repeat_interleave(k, 0), inside.repeat_interleave(k, 0)
        seen = None
        if "evidence_noise" in draws:
            seen = actions + draws["evidence_noise"].flatten(0, 1) * masks.evidence
        missing = None if self.settings.horizon == 1 else inside == 0
        return self.model.loss(actions, masks, context, missing, evidence_values=seen, rows_per_context=k)

    @torch.no_grad()
    def coverage(self, observations: Tensor, actions: Tensor, inside: Tensor) -> dict[int, NDArray[np.float64]]:
        """For the central 50% and 90% intervals: the share of values inside, for each variable (variables,)."""
        context = self.normalizer.observations(observations).flatten(1)
        x = self.normalizer.actions(actions).flatten(1)
        level, asked = self._levels(context, x)
        asked = (asked & inside[..., None].expand_as(actions).flatten(1)).double()
        return {
            percent: ((((level - 0.5).abs() <= percent / 200) * asked).sum(0) / asked.sum(0)).cpu().numpy()
            for percent in (50, 90)
        }

    def _levels(self, context: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """P(X <= x) for each variable given drawn evidence, and where it is asked for. (B, variables) each"""
        masks = self.factorization.training_masks(len(x), torch.Generator().manual_seed(0)).to(x.device)
        return decoding.cdf(self.model.conditionals(x, evidence=masks.evidence, context=context), x), masks.weights > 0

    # ---- acting ----

    def plan(self, context: Tensor, values: Tensor, given: Tensor, request: Request) -> Tensor:
        s = self.settings
        how = decoding.choose(s.decode, s.temperature, request.deterministic, request.temperature)
        count = s.candidates if how.kind == "best" else 1
        noise = request.noise
        if noise is None and how.random:
            size = (count * len(context), self.variables, 2)
            noise = torch.randn(size, generator=request.generator).to(context.device)
        elif noise is not None:
            noise = noise.flatten(0, 1)
        path = decoding.Path(self._dims[: s.execute * self.action_dim], *self.normalizer.bounds(s.horizon))
        if len(context) == count == 1 and context.device.type == "cpu":
            row = self._fill_row(context, values, given, path, how, noise)
            if row is not None:
                return torch.from_numpy(row)[None]
        if count == 1:
            return decoding.fill(self.model, context, values, given, path, how, noise)[0]
        return self._best(context, values, given, path, how, noise, request.previous)

    def _fill_row(
        self,
        context: Tensor,
        values: Tensor,
        given: Tensor,
        path: decoding.Path,
        how: decoding.How,
        noise: Tensor | None,
    ) -> NDArray[np.float32] | None:
        """(variables,) values of a single row on the CPU, by a quicker way where there is one for the network."""
        network = self.model.network
        if not lean.suits(network, self.head):
            return None
        return lean.fill_one(network, self.head, network.trunk(context), values, given, path, how, noise)

    def _best(
        self,
        context: Tensor,
        values: Tensor,
        given: Tensor,
        path: decoding.Path,
        how: decoding.How,
        noise: Tensor | None,
        previous: Tensor | None,
    ) -> Tensor:
        """The likeliest of several samples, with a liking for the last action."""
        k, rows = self.settings.candidates, len(context)

        def repeat(t: Tensor) -> Tensor:
            return t.repeat_interleave(k, 0)

        filled, score = decoding.fill(self.model, context, repeat(values), repeat(given), path, how, noise)
        candidates, score = filled.unflatten(0, (rows, k)), score.unflatten(0, (rows, k))
        if previous is not None and self.settings.stickiness:
            change = (candidates[..., : self.action_dim] - previous[:, None]).square().sum(-1)
            score = score - self.settings.stickiness * change.nan_to_num(0.0)
        best: Tensor = candidates[torch.arange(rows, device=score.device), score.argmax(1)]
        return best

    def hold_noise(self, state: PolicyState, generator: torch.Generator) -> Tensor | None:
        s = self.settings
        if s.noise == "fresh":
            return None
        count = s.candidates if s.decode == "best" else 1
        fresh = torch.randn((len(state), count, self.variables, 2), generator=generator)
        if state.noise is None:
            return fresh.to(self.device)
        rho = s.noise_correlation if s.noise == "slow" else 1.0
        moved = rho * state.noise.cpu() + (1 - rho**2) ** 0.5 * fresh
        new = torch.from_numpy(state.fresh)[:, None, None, None]
        return torch.where(new, fresh, moved).to(self.device)

    @renamed_keywords(given_mask="given", query_mask="query")
    def log_prob(
        self,
        obs: ArrayLike,
        action: ArrayLike,
        *,
        query: ArrayLike | None = None,
        given: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """(B,): log p(action[query] | action[given], obs) per unit of the action space, at the chunk's first step.

        With no masks the joint log-density of the action; `query` alone gives a marginal, for instance that
        of an operator's dims.
        """
        observations, _ = inputs.rows(obs, self.observation_dim, self.settings.history)
        if observations.ndim == 2:
            observations = np.repeat(observations[:, None], self.settings.history, axis=1)
        asked, known = self._masks(query, given, len(observations))
        actions = inputs.fitted("action", np.asarray(action, np.float32), len(known), self.spaces.action)
        if not np.isfinite(actions[known | asked]).all():
            raise ValueError("the action holds NaN or infinity in dims that are given or queried")
        with torch.inference_mode():
            context = self.normalizer.observations(torch.from_numpy(observations).to(self.device)).flatten(1)
            x = torch.zeros(len(actions), self.variables, device=self.device)
            first = slice(0, self.action_dim)
            x[:, first] = self.normalizer.actions(torch.tensor(np.where(known | asked, actions, 0.0)).to(self.device))
            masks = torch.zeros(2, *x.shape, dtype=torch.bool, device=self.device)
            masks[0, :, first], masks[1, :, first] = torch.from_numpy(asked), torch.from_numpy(known)
            found = self.model.log_prob(
                x, query=masks[0], given=masks[1], factorization=self.factorization, context=context
            ).double()
            scale = self.normalizer.action_std.log().double()
            result: NDArray[Any] = (found - (masks[0, :, first] * scale).sum(1)).cpu().numpy()
        return result

    def _masks(
        self, query: ArrayLike | None, given: ArrayLike | None, n: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        space = self.spaces.action
        known = np.zeros((n, self.action_dim), bool) if given is None else inputs.truths("given", given, n, space)
        asked = ~known if query is None else inputs.truths("query", query, n, space)
        if (both := known & asked).any():
            raise ValueError(f"dims {np.unique(np.nonzero(both)[1]).tolist()} are both given and queried")
        return asked.copy(), known.copy()


class MACPaper(MAC):
    """MAC with the paper's plain MLP: a step of the path costs a pass through all of it."""

    kind: ClassVar[str] = "mac_paper"
    settings_class: ClassVar[type[PolicySettings]] = MACPaperSettings
    settings: MACPaperSettings

    def _network(self, head: GaussianMixture) -> Network:
        s = self.settings
        return MLP(
            num_variables=self.variables,
            num_features=head.num_features,
            num_params=head.num_params,
            context_dim=s.history * self.observation_dim,
            width=s.width,
            depth=s.depth,
        )
