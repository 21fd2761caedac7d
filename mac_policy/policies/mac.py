"""MAC as a policy: an any-order model of the action (or a chunk of actions) given the observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from mac_policy.common.deprecation import renamed_keywords
from mac_policy.common.folders import Checked
from mac_policy.common.labels import Codes
from mac_policy.core.factorization import MaskTuned
from mac_policy.core.frame import Frame
from mac_policy.core.heads import Categorical, GaussianMixture, Head, Mixed
from mac_policy.core.heads.widened import Widened
from mac_policy.core.masks import FixedMasks, MaskDistribution, UniformCardinality
from mac_policy.core.model import AnyOrderModel
from mac_policy.core.networks import TrunkQuery
from mac_policy.core.training_draws import TrainingDraws, chosen_rows, map_tensors
from mac_policy.policies import calibration, decoding, densities, following, inputs, intent, quick_path, quick_trunk
from mac_policy.policies.belief import Belief
from mac_policy.policies.labels import draw_roles, with_labels
from mac_policy.policies.mac_settings import HEADS, MACPaperSettings, MACPathSettings, MACSettings
from mac_policy.policies.operator_masks import operator_masks
from mac_policy.policies.policy import Policy
from mac_policy.policies.request import Request
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces
from mac_policy.policies.state import PolicyState

if TYPE_CHECKING:
    from mac_policy.demonstrations.demonstrations import Demonstrations
    from mac_policy.policies.data import Batch

PLAN_MARGIN, PLAN_FLOOR = 5.0, -5.0
"""Nats: by how much a plan may make a command less likely, and how unlikely a commanded dim may be given the plan (the
mean over the commanded dims), where no rows were held out to fit them."""


LABEL_FLOOR = -4.0
"""Of the log standard deviations of labels of real values, in normalised units. Acting draws none of them, so that the
floor is far below that of actions, and only keeps the place of an object at rest from being known without an error."""

LARGEST_FACTOR = 50.0
"""Logarithm of a factor of spreads, or of the odds of a share."""


class MACDraws(NamedTuple):
    """The random numbers of MAC's loss: `masks_per_row` questions for each row."""

    asked: TrainingDraws  # (n, masks_per_row, variables) each
    evidence_noise: Tensor | None  # (n, masks_per_row, variables), 0 in rows without an operator


class MAC(Checked, Policy):
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
        self.of_numbers = GaussianMixture(settings.components, LABEL_FLOOR)
        self.head = self._with_labels(self.mixture, self.of_numbers)
        sizes = len(self.variables), self.num_inputs
        network = settings.make_network(self.head, *sizes)
        self.model = AnyOrderModel(network, self.head, validate=False)
        mixture = self.mixture
        self.rules = nn.ModuleList(Belief() for _ in self.categories)
        if settings.honest_steps:
            network = settings.make_network(self.head, *sizes).requires_grad_(False)
            self.honest_network = network
            mixture = self.own_mixture = HEADS[settings.head](settings.of_honest)  # a module: moves with the policy
        self.widened, self.widened_labels = Widened(mixture, self.variables.chunk), None
        if self.numbers:
            self.widened_labels = Widened(self.of_numbers, len(self.numbers), self.numbers.start)
        # Models share the modules of the policy and are none of its own.
        self._models = tuple(
            AnyOrderModel(part, self._with_labels(head, self.widened_labels), validate=False)
            for part, head in ((self.model.network, self.widened.over(self.mixture)), (network, self.widened))
        )
        self.register_buffer("honest_ready", torch.tensor(0.0))
        self.register_buffer("plan_margin", torch.tensor(PLAN_MARGIN))
        self.register_buffer("plan_floor", torch.tensor(PLAN_FLOOR))
        self.begun: quick_trunk.Query | None = None
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
        for model in self._models:
            if isinstance(model.head, Mixed):  # no module of the policy: it shares the tensors of one
                model.head.which = fn(model.head.which)
        return self

    def check(self) -> None:
        """ValueError unless what is fitted at the end of a training could have been."""
        for head in filter(None, (self.widened, self.widened_labels)):
            for name, factors in head.named_buffers():
                if not bool((factors.abs() <= LARGEST_FACTOR).all()):
                    raise ValueError(f"{name} of the spreads must be of a size of at most {LARGEST_FACTOR:g}")
        if float(self.honest_ready) not in (0.0, 1.0):
            raise ValueError(f"honest_ready must be 0 or 1, got {float(self.honest_ready):g}")
        if not float(self.plan_margin) >= 0:
            raise ValueError(f"plan_margin must be at least 0, got {float(self.plan_margin):g}")

    @property
    def categories(self) -> range:
        """The variables that are categorical labels."""
        return range(self.variables.chunk, self.variables.chunk + len(self.variables.categories))

    @property
    def numbers(self) -> range:
        """The variables that are labels of real values."""
        return range(self.categories.stop, len(self.variables))

    def _with_labels(self, real: Head, of_numbers: Head | None) -> Head:
        """A head for all variables: `real` for the dims of actions, one family for each category, and `of_numbers` for
        labels of real values, the last family."""
        if not self.variables.labels:
            return real
        families = [real, *(Categorical(len(label.classes)) for label in self.variables.categories)]
        which = [0] * self.variables.chunk + [1 + i for i in range(len(self.categories))]
        if self.numbers and of_numbers is not None:
            families.append(of_numbers)
            which += [len(families) - 1] * len(self.numbers)
        return Mixed(families, which)

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
        return self._models[self._has_honest]

    @property
    def _has_honest(self) -> bool:
        return not self.settings.honest_steps or bool(self.honest_ready)

    @property
    def honest_mixture(self) -> GaussianMixture:
        """The head of the honest model's actions, before its spreads are corrected."""
        return self.widened.head if self._has_honest else self.mixture

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
        calibration.fit_spreads(self, answers)
        if self.follows_plans:
            calibration.fit_plan_tests(self, answers)

    @torch.no_grad()
    def fit_beliefs(self, answers: Sequence[tuple[MAC, Demonstrations]]) -> None:
        """Fit how beliefs move to episodes that the answering policies were not trained on."""
        for policy, _ in answers:
            policy.widened.load_state_dict(self.widened.state_dict())
        intent.fit(self, answers)

    @property
    def honest_base(self) -> AnyOrderModel:
        """The honest model before its spreads are corrected."""
        head = self._with_labels(self.honest_mixture, self.of_numbers).to(self.device)
        return AnyOrderModel(self.honest.network, head, validate=False)

    def _read(
        self, observations: Tensor, targets: Tensor, labels: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Frame | None]:
        """Values (B, variables), context (B, C) and frame of windows as training gives them."""
        present = observations[:, -1]
        context = self.normalizer.observations(observations).flatten(1)
        values = self.variables.encode(targets, present, self.label_values(labels))
        return values, context, self.frame(present)

    @torch.no_grad()
    def coverage(
        self, observations: Tensor, targets: Tensor, inside: Tensor, labels: Tensor | None = None
    ) -> dict[int, NDArray[np.float64]]:
        """For the central 50% and 90% intervals: the share of values inside, for each dim of the chunk and each label
        of real values."""
        from mac_policy.policies.data import Batch  # which imports policies

        return calibration.coverage(self, Batch(observations, targets, inside, labels))

    # ---- acting ----

    def plan(
        self, context: Tensor, values: Tensor, given: Tensor, request: Request, frame: Frame | None = None
    ) -> Tensor:
        s = self.settings
        if s.decode_alone in (None, s.decode):
            return self._filled(context, values, given, request, frame, s.execute, s.decode)
        alone, kinds = ~given[:, : self.action_dim].any(1), (s.decode, s.decode_alone)
        if len(given) > 1 and request.noise is None:  # drawn for all, so that no row depends on another one's command
            noise = torch.randn((len(given), 1, len(self.variables), 2), generator=request.generator)
            request = request._replace(noise=noise.to(self.device))
        if alone.all() or not alone.any():
            return self._filled(context, values, given, request, frame, s.execute, kinds[bool(alone.all())])
        filled = torch.empty_like(values)
        for rows, kind in zip((~alone, alone), kinds, strict=True):
            of_rows = None if frame is None else frame.rows(rows)
            filled[rows] = self._filled(
                context[rows], values[rows], given[rows], request.rows(rows), of_rows, s.execute, kind
            )
        return filled

    def _filled(
        self,
        context: Tensor,
        values: Tensor,
        given: Tensor,
        request: Request,
        frame: Frame | None,
        steps: int,
        kind: str,
    ) -> Tensor:
        """What is not given of the chunk's first `steps`, chosen along the path by a kind of decoding."""
        s = self.settings
        how, noise = self._how(len(context), request, kind)
        count = s.candidates if how.kind == "best" else 1
        path = decoding.Path(self._dims[: steps * self.action_dim], *self.variables.bounds())
        reader = self._reader(context) if count == 1 and self._is_quick(len(context)) else None
        self.begun = None
        if reader is not None:
            filled = quick_trunk.fill_one(reader, self.mixture, values, given, path, how, noise, frame)
            return torch.from_numpy(filled)[None]
        if count == 1:
            return decoding.fill(self.model, context, values, given, path, how, noise, frame)[0]
        return self._best(context, values, given, path, how, noise, request.previous, frame)

    def _is_quick(self, rows: int) -> bool:
        """Whether the quick forms serve."""
        return rows == 1 and self.device.type == "cpu"

    def _how(self, rows: int, request: Request, kind: str) -> tuple[decoding.How, Tensor | None]:
        """How values are chosen, and the noise (rows, or candidates of rows; variables, 2) of random ones."""
        s = self.settings
        how = decoding.choose(kind, s.temperature, request.deterministic, request.temperature)
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
        assumed: Codes | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return following.follow(self, observations, held, ahead, request, assumed)

    def infer(
        self,
        state: PolicyState,
        observations: NDArray[np.float32],
        held: inputs.Commanded | None,
        said: Codes,
    ) -> tuple[NDArray[np.float64], ...]:
        return intent.infer(self, state, observations, held, said)

    def expect(
        self, observations: NDArray[np.float32], held: inputs.Commanded | None, codes: Codes
    ) -> tuple[NDArray[np.float64], ...]:
        return intent.expect(self, observations, held, codes)

    def decide(self, believed: NDArray[np.float64], before: NDArray[np.int64], request: Request) -> NDArray[np.int64]:
        return intent.decide(self.settings, believed, before, request)

    def _reader(self, context: Tensor) -> quick_trunk.Reader | None:
        """The quick form of the network for a single row on the CPU, if there is one."""
        network = self.model.network
        if quick_trunk.suits(network):
            begun = self.begun
            return begun if begun is not None and begun.reads(network, context) else self._first(network, context)
        if quick_path.suits(network) and not self.variables.labels:
            encoded = network.encode(context)
            return None if encoded is None else quick_path.Walk(network, encoded)
        return None

    def begin(self, network: TrunkQuery, context: Tensor) -> quick_trunk.Query:
        """A reader of one row that has seen nothing but its context. A decision asks for it several times, for what the
        person wants, for the plan and for the action: the context is read once, and forgotten with the decision."""
        begun = self.begun
        if begun is None or not begun.reads(network, context):
            begun = self.begun = self._first(network, context)
        return begun.again()

    def _first(self, network: TrunkQuery, context: Tensor) -> quick_trunk.Query:
        return quick_trunk.Query(network, context, self.categories)

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
        return densities.log_prob(self, obs, action, query, given, labels)


class MACPaper(MAC):
    """MAC with the paper's plain MLP: a step of the path costs a pass through all of it."""

    kind: ClassVar[str] = "mac_paper"
    settings_class: ClassVar[type[PolicySettings]] = MACPaperSettings


class MACPath(MAC):
    """MAC with a path network: the action's dims are tokens in path order, and every value is read once."""

    kind: ClassVar[str] = "mac_path"
    settings_class: ClassVar[type[PolicySettings]] = MACPathSettings
