"""MAC as a policy: an any-order model of the action (or a chunk of actions) given the observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from mac_policy.common.deprecation import renamed_keywords
from mac_policy.common.labels import UNSAID, label_codes
from mac_policy.core.factorization import MaskTuned
from mac_policy.core.frame import Frame
from mac_policy.core.heads import Categorical, Head, Mixed
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.heads.mixed import real_part
from mac_policy.core.heads.widened import Widened
from mac_policy.core.masks import FixedMasks, MaskDistribution, UniformCardinality
from mac_policy.core.model import AnyOrderModel
from mac_policy.core.training_draws import TrainingDraws, chosen_rows, known_and_weights, map_tensors
from mac_policy.policies import decoding, following, inputs, intent, quick_path, quick_trunk
from mac_policy.policies.belief import Belief
from mac_policy.policies.labels import draw_roles, with_labels
from mac_policy.policies.mac_settings import HEADS, MACPaperSettings, MACPathSettings, MACSettings
from mac_policy.policies.operator_masks import operator_masks
from mac_policy.policies.policy import Policy, Request
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces
from mac_policy.policies.state import PolicyState

if TYPE_CHECKING:
    from mac_policy.demonstrations.demonstrations import Demonstrations
    from mac_policy.policies.data import Batch

KEPT_SHARE = 0.2
"""A class that was drawn stays assumed as long as it is believed this much of what the likeliest one is."""
PLAN_MARGIN, PLAN_FLOOR = 5.0, -5.0
"""Nats: by how much a plan may make a command less likely, and how unlikely a commanded dim may be given the plan (the
mean over the commanded dims), where no rows were held out to fit them."""


class MACDraws(NamedTuple):
    """The random numbers of MAC's loss: `masks_per_row` questions for each row."""

    asked: TrainingDraws  # (n, masks_per_row, variables) each
    evidence_noise: Tensor | None  # (n, masks_per_row, variables), 0 in rows without an operator


class MAC(Policy):
    """p(action dims left | action dims commanded, observation), dimension after dimension."""

    kind: ClassVar[str] = "mac"
    settings_class: ClassVar[type[PolicySettings]] = MACSettings
    has_likelihood: ClassVar[bool] = True
    labels_as = "variables"
    settings: MACSettings
    plan_margin: Tensor
    plan_floor: Tensor
    honest_ready: Tensor

    def __init__(self, spaces: Spaces, settings: MACSettings) -> None:
        super().__init__(spaces, settings)
        self.mixture = HEADS[settings.head](settings)
        self.head = self._with_categories(self.mixture)
        sizes = len(self.variables), self.num_inputs
        network = settings.make_network(self.head, *sizes)
        self.model = AnyOrderModel(network, self.head, validate=False)
        self.widened = Widened(self.mixture, self.variables.chunk)
        self.rules = nn.ModuleList(Belief() for _ in self.variables.labels)
        if settings.honest_steps:
            network = settings.make_network(self.head, *sizes).requires_grad_(False)
            self.honest_network = network
        honest_head = self._with_categories(self.widened)
        # Models share the modules of the policy and are none of its own.
        self._models = tuple(AnyOrderModel(part, honest_head, validate=False) for part in (self.model.network, network))
        self.register_buffer("honest_ready", torch.tensor(0.0))
        self.register_buffer("plan_margin", torch.tensor(PLAN_MARGIN))
        self.register_buffer("plan_floor", torch.tensor(PLAN_FLOOR))
        self._dims = self.variables.action_order
        self.subsets = [self.variables.known.dims_of("subsets", each) for each in settings.subsets]
        if self.variables.labels:
            settings.check_labels()
        held = operator_masks(self.action_dim, settings.horizon, self.subsets, settings.plans)
        self._trained = self._paths(settings.masks, held, self.variables.chunk)
        nothing = FixedMasks(torch.zeros(1, self.variables.chunk, dtype=torch.bool))
        self.alone = self._paths("conditional", nothing, self.variables.chunk) if settings.alone else None
        self.factorization = self._trained
        if self.variables.labels:
            self.factorization = self._paths("both", UniformCardinality(len(self.variables)), len(self.variables))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MAC:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        honest_head = self._models[0].head
        if isinstance(honest_head, Mixed):  # no module of the policy: it shares the tensors of one
            honest_head.which = fn(honest_head.which)
        return self

    def _with_categories(self, real: Head) -> Head:
        """A head for all variables: `real` for the dims of actions, and one family for each label."""
        if not self.variables.labels:
            return real
        categories = [Categorical(len(label.classes)) for label in self.variables.labels]
        return Mixed([real, *categories], [0] * self.variables.chunk + [1 + i for i in range(len(categories))])

    def _paths(self, query: str, held: MaskDistribution, number: int) -> MaskTuned:
        """Paths over the dims of actions, or over all variables."""
        s, order = self.settings, self.variables.order
        return MaskTuned(
            UniformCardinality(number),
            evidence_masks=held,
            order=order[len(order) - number :],
            query=query,
            weights=s.weights,
            cardinality_reweighting=s.reweighting,
        )

    # ---- training ----

    def own_draws(self, n: int, generator: torch.Generator) -> MACDraws:
        s, rows = self.settings, n * self.settings.masks_per_row
        draw = self.model.asking.draw
        asked, held, noise = draw(self._trained, rows, generator), torch.ones(rows, 1), None
        if self.alone is not None:
            own = draw(self.alone, rows, generator)
            held = (torch.rand((rows, 1), generator=generator) >= s.alone).float()
            asked = chosen_rows(held > 0, asked, own)
        if s.evidence_noise:
            scale = s.evidence_noise * held * torch.rand((rows, 1), generator=generator)
            noise = scale * torch.randn((rows, self.variables.chunk), generator=generator)
        if labels := len(self.variables.labels):
            asked = with_labels(asked, draw_roles(rows, labels, s.label_shown, generator))
            noise = None if noise is None else nn.functional.pad(noise, (0, labels))
        return map_tensors(lambda part: part.unflatten(0, (n, -1)), MACDraws(asked, noise))

    def loss(
        self, context: Tensor, actions: Tensor, inside: Tensor, draws: MACDraws, frame: Frame | None = None
    ) -> Tensor:
        k = self.settings.masks_per_row
        asked, noise = map_tensors(lambda part: part.flatten(0, 1), draws)
        actions, inside = actions.repeat_interleave(k, 0), inside.repeat_interleave(k, 0)
        read = None if noise is None else actions + noise
        missing = None if self.settings.horizon == 1 and not self.variables.labels else inside == 0
        each = None if frame is None else frame.repeat(k)
        return self.model.loss(actions, asked, context, missing, evidence_values=read, rows_per_context=k, frame=each)

    @property
    def honest(self) -> AnyOrderModel:
        """The model of all densities: its spreads are fitted to rows that were not trained on, and its network is that
        of the acting model, or, when the training is finished, one that stopped early (`honest_steps`)."""
        return self._models[bool(self.honest_ready)]

    def take_honest(self, network: nn.Module) -> None:
        """Take over the weights of a trained network as those of the honest one."""
        self._models[1].network.load_state_dict(network.state_dict())
        self.honest_ready.fill_(1.0)

    @torch.no_grad()
    def calibrate(self, observations: Tensor, targets: Tensor, inside: Tensor, labels: Tensor | None = None) -> None:
        """Fit the spreads of the honest model, and by how much a plan may make a command less likely."""
        from mac_policy.policies.data import Batch  # which imports policies

        self.calibrate_on([(self, Batch(observations, targets, inside, labels))])

    @torch.no_grad()
    def calibrate_on(self, answers: Sequence[tuple[MAC, Batch]]) -> None:
        """As `calibrate`, with the answers of several policies, each for rows that it was not trained on."""
        found, values, asked = [], [], []
        for policy, batch in answers:
            base, wanted, x = policy._answers(policy.honest_base, batch)
            found.append(base)
            asked.append(wanted)
            values.append(x)
        parts = (torch.cat([getattr(base, name) for base in found]) for name in ("log_weights", "means", "log_stds"))
        self.widened.fit(MixtureConditional(*parts), torch.cat(values), torch.cat(asked))
        if self.follows_plans:
            for policy, _ in answers:
                policy.widened.load_state_dict(self.widened.state_dict())
            tests = [following.tests_of_own_plans(policy, batch) for policy, batch in answers]
            lost, surprise = (torch.cat(parts).double() for parts in zip(*tests, strict=True))
            if not len(lost):  # nothing can be commanded in part
                return
            self.plan_margin.fill_(lost.quantile(following.PLANS_KEPT).clamp(min=0.0))
            self.plan_floor.fill_(surprise.quantile(1 - following.PLANS_KEPT))

    @torch.no_grad()
    def fit_beliefs(self, answers: Sequence[tuple[MAC, Demonstrations]]) -> None:
        """Fit how beliefs move to episodes that the answering policies were not trained on."""
        for policy, _ in answers:
            policy.widened.load_state_dict(self.widened.state_dict())
        intent.fit(self, answers)

    @property
    def honest_base(self) -> AnyOrderModel:
        """The honest model before its spreads are corrected."""
        return AnyOrderModel(self.honest.network, self.head, validate=False)

    def _read(
        self, observations: Tensor, targets: Tensor, labels: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Frame | None]:
        """Values (B, variables), context (B, C) and frame of windows as training gives them."""
        present = observations[:, -1]
        context = self.normalizer.observations(observations).flatten(1)
        return self.variables.encode(targets, present, labels), context, self.variables.frame(present)

    def _answers(self, model: AnyOrderModel, batch: Batch, seed: int = 0) -> tuple[MixtureConditional, Tensor, Tensor]:
        """Conditionals of the actions of rows with an operator, then, if the policy trains for it, of the same rows
        without one; which of them are asked for; and the values, (..., chunk) each."""
        x, context, frame = self._read(batch.observations, batch.targets, batch.labels)
        generator, found, asked = torch.Generator().manual_seed(seed), [], []
        known, chunk = self.variables.have_values(batch.inside, batch.labels), self.variables.chunk
        for paths in (self._trained, self.alone):
            if paths is not None:
                draws = self.model.asking.draw(paths, len(x), generator)
                if self.variables.labels:
                    roles = draw_roles(len(x), len(self.variables.labels), self.settings.label_shown, generator)
                    draws = with_labels(draws, roles)
                draws = type(draws)(*known_and_weights(draws.to(x.device), x, ~known, False), None)
                found.append(real_part(model.answers(x, draws, context, frame), chunk))
                asked.append((draws.weights > 0)[:, :chunk])
        parts = (torch.cat([getattr(c, name) for c in found]) for name in ("log_weights", "means", "log_stds"))
        return MixtureConditional(*parts), torch.cat(asked), x[:, :chunk].repeat(len(found), 1)

    @torch.no_grad()
    def coverage(
        self, observations: Tensor, targets: Tensor, inside: Tensor, labels: Tensor | None = None
    ) -> dict[int, NDArray[np.float64]]:
        """For the central 50% and 90% intervals: the share of values inside, for each dim of the chunk (chunk,)."""
        from mac_policy.policies.data import Batch  # which imports policies

        found, asked, x = self._answers(self.honest, Batch(observations, targets, inside, labels))
        level = decoding.cdf(found, x)
        return {
            percent: ((((level - 0.5).abs() <= percent / 200) & asked).sum(0) / asked.sum(0)).cpu().numpy()
            for percent in (50, 90)
        }

    # ---- acting ----

    def plan(
        self, context: Tensor, values: Tensor, given: Tensor, request: Request, frame: Frame | None = None
    ) -> Tensor:
        return self._filled(context, values, given, request, frame, self.settings.execute)

    def _filled(
        self, context: Tensor, values: Tensor, given: Tensor, request: Request, frame: Frame | None, steps: int
    ) -> Tensor:
        """What is not given of the chunk's first `steps`, chosen along the path."""
        s = self.settings
        how, noise = self._how(len(context), request)
        count = s.candidates if how.kind == "best" else 1
        path = decoding.Path(self._dims[: steps * self.action_dim], *self.variables.bounds())
        if count == 1 and self._is_quick(len(context)) and (reader := self._reader(context)) is not None:
            filled = quick_trunk.fill_one(reader, self.mixture, values, given, path, how, noise, frame)
            return torch.from_numpy(filled)[None]
        if count == 1:
            return decoding.fill(self.model, context, values, given, path, how, noise, frame)[0]
        return self._best(context, values, given, path, how, noise, request.previous, frame)

    def _is_quick(self, rows: int) -> bool:
        """Whether the quick forms serve."""
        return rows == 1 and self.device.type == "cpu"

    def _how(self, rows: int, request: Request) -> tuple[decoding.How, Tensor | None]:
        """How values are chosen, and the noise (rows, or candidates of rows; variables, 2) of random ones."""
        s = self.settings
        how = decoding.choose(s.decode, s.temperature, request.deterministic, request.temperature)
        if request.noise is not None:
            return how, request.noise.flatten(0, 1)
        if not how.random:
            return how, None
        count = s.candidates if how.kind == "best" else 1
        size = (count * rows, len(self.variables), 2)
        return how, torch.randn(size, generator=request.generator).to(self.device)

    @property
    def belief_rules(self) -> list[Belief]:
        """How the belief about each label moves."""
        return cast("list[Belief]", list(self.rules))

    @property
    def follows_plans(self) -> bool:
        return self.settings.plans > 0 and self.settings.horizon > 1

    def follow(
        self,
        observations: NDArray[np.float32],
        held: inputs.Commanded,
        ahead: NDArray[np.float32],
        request: Request,
        assumed: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return following.follow(self, observations, held, ahead, request, assumed)

    def infer(
        self,
        state: PolicyState,
        observations: NDArray[np.float32],
        held: inputs.Commanded | None,
        said: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], ...]:
        return intent.infer(self, state, observations, held, said)

    def decide(self, believed: NDArray[np.float64], before: NDArray[np.int64], request: Request) -> NDArray[np.int64]:
        s, rows = self.settings, np.arange(len(believed))
        if s.assume == "nothing":
            return np.full(len(believed), UNSAID)
        chosen = believed.argmax(1)
        if s.assume == "sampled" and not request.deterministic and request.temperature != 0:
            level = torch.rand((len(believed), 1), generator=request.generator, dtype=torch.float64).numpy()
            drawn = (believed.cumsum(1) < level).sum(1).clip(max=believed.shape[1] - 1)
            keeps = (before >= 0) & (believed[rows, before] >= KEPT_SHARE * believed[rows, chosen])
            chosen = np.where(keeps, before, drawn)
        return np.where(believed[rows, chosen] >= s.least_belief, chosen, UNSAID)

    def _reader(self, context: Tensor) -> quick_trunk.Reader | None:
        """The quick form of the network for a single row on the CPU, if there is one."""
        network, encoded = self.model.network, self.model.network.encode(context)
        if encoded is None:
            return None
        if quick_trunk.suits(network):
            return quick_trunk.Query(network, encoded, self.variables.chunk)
        if quick_path.suits(network) and not self.variables.labels:
            return quick_path.Walk(network, encoded)
        return None

    def _best(
        self,
        context: Tensor,
        values: Tensor,
        given: Tensor,
        path: decoding.Path,
        how: decoding.How,
        noise: Tensor | None,
        previous: Tensor | None,
        frame: Frame | None,
    ) -> Tensor:
        """The likeliest of several samples, with a liking for the last action."""
        k, rows = self.settings.candidates, len(context)
        values, given = values.repeat_interleave(k, 0), given.repeat_interleave(k, 0)
        frame = None if frame is None else frame.repeat(k)
        filled, score = decoding.fill(self.model, context, values, given, path, how, noise, frame)
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
        fresh = torch.randn((len(state), count, len(self.variables), 2), generator=generator)
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
        labels: Any = None,
    ) -> NDArray[np.float64]:
        """(B,): log p(action[query] | action[given], labels, obs) per unit of the action space, at the chunk's first
        step.

        With no masks the joint log-density of the action; `query` alone gives a marginal, for instance that
        of an operator's dims. A label that is not said has no part in it.
        """
        observations, _ = inputs.rows(obs, self.observation_dim, self.settings.history)
        if observations.ndim == 2:
            observations = np.repeat(observations[:, None], self.settings.history, axis=1)
        asked, known = self._masks(query, given, len(observations))
        actions = inputs.fitted("action", np.asarray(action, np.float32), len(known), self.spaces.action)
        if not np.isfinite(actions[known | asked]).all():
            raise ValueError("the action holds NaN or infinity in dims that are given or queried")
        with torch.inference_mode():
            seen = torch.from_numpy(observations).to(self.device)
            context = self.normalizer.observations(seen).flatten(1)
            x = torch.zeros(len(actions), len(self.variables), device=self.device)
            first = slice(0, self.action_dim)
            mean, std = self.variables.mean[first], self.variables.std[first]
            x[:, first] = (torch.tensor(np.where(known | asked, actions, 0.0)).to(self.device) - mean) / std
            masks = torch.zeros(2, *x.shape, dtype=torch.bool, device=self.device)
            masks[0, :, first], masks[1, :, first] = torch.from_numpy(asked), torch.from_numpy(known)
            if self.variables.labels:
                said = torch.from_numpy(label_codes(self.labels, labels, len(actions))).to(self.device)
                x[:, self.variables.chunk :] = said.clamp(min=0).to(x)
                masks[1, :, self.variables.chunk :] = said >= 0
            found = self.honest.log_prob(
                x,
                query=masks[0],
                given=masks[1],
                factorization=self.factorization,
                context=context,
                frame=self.variables.frame(seen[:, -1]),
            ).double()
            scale = std.log().double()
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


class MACPath(MAC):
    """MAC with a path network: the action's dims are tokens in path order, and every value is read once."""

    kind: ClassVar[str] = "mac_path"
    settings_class: ClassVar[type[PolicySettings]] = MACPathSettings
