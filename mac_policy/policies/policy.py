"""The contract of all policies: any subset of an action's dims may be commanded, the policy fills in the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from inspect import signature
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from mac_policy.common.checks import check_count, check_instance
from mac_policy.common.deprecation import renamed_keywords
from mac_policy.common.labels import AnyLabel, Codes, differ, is_said, numbers
from mac_policy.core.frame import Frame
from mac_policy.policies import inputs, stepping
from mac_policy.policies.normalizer import Normalizer
from mac_policy.policies.recovery import Recovery
from mac_policy.policies.request import Draws, Request
from mac_policy.policies.said import checked_codes, demonstrated, input_size, label_inputs, label_values
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces
from mac_policy.policies.state import PolicyState
from mac_policy.policies.variables import Variables


class Policy(nn.Module, ABC):
    """Base class of policies over a flat Box of observations and a bounded flat Box of actions.

    A subclass defines `kind`, `settings_class`, `loss` and `plan`, and `draw` where its loss is random.

    Training: `forward(observations (B, history, obs), actions (B, horizon, act), inside, draws)` is the loss, where
    `draws = draw(n, generator)` holds all randomness of a global batch, so that it can be sliced over processes.
    Acting: `act`, `step` (with an explicit state), `predict` (the interface of stable-baselines3), `log_prob`.

    >>> from gymnasium.spaces import Box
    >>> from mac_policy import make_policy, Spaces
    >>> policy = make_policy("mac", Spaces.of(Box(-1, 1, (3,)), Box(-1, 1, (2,))), {"width": 8, "query_width": 8})
    >>> float(policy.act([0.1, 0.2, 0.3], command=[0.5, 0.0], mask=[True, False])[0])
    0.5
    """

    kind: ClassVar[str]
    """The name under which the kind is registered and stored."""
    settings_class: ClassVar[type[PolicySettings]]
    has_likelihood: ClassVar[bool] = False
    reads_command: ClassVar[bool] = True
    """Whether a plan depends on what is commanded. One that does not is carried out as far as without a command."""
    labels_as: ClassVar[Literal["nothing", "inputs", "variables"]] = "nothing"
    """What the labels of the data are to this kind: an input has to be said, a variable is inferred if it is not."""

    def __init__(self, spaces: Spaces, settings: PolicySettings) -> None:
        super().__init__()
        self.spaces = spaces
        self.settings = settings
        self.observation_dim: int = spaces.observation.shape[0]
        self.action_dim: int = spaces.action.shape[0]
        representation = settings.representation
        if not self._takes_frames() and spaces.actions.has_targets:
            if representation == "absolute":
                raise ValueError(
                    f"representation='absolute': loss and plan of {type(self).__name__} take no frame, so that it "
                    "cannot say places; use 'relative' or 'auto'"
                )
            representation = "relative"
        self.labels: tuple[AnyLabel, ...] = spaces.labels if settings.labels and self.labels_as != "nothing" else ()
        modelled = self.labels if self.labels_as == "variables" else ()
        order = getattr(settings, "order", ())
        self.variables = Variables(spaces, settings.horizon, representation, order, modelled)
        self._observed = [label.observed for label in numbers(modelled)] if self._takes_frames() else []
        self.normalizer = Normalizer(self.observation_dim)
        self.recovery: Recovery | None = None  # fitted to the demonstrations, used in training alone
        self._generator = torch.Generator()
        self._generator.seed()

    # ---- what a kind of policy defines ----

    @abstractmethod
    def loss(self, context: Tensor, actions: Tensor, inside: Tensor, draws: Any, frame: Frame | None = None) -> Tensor:
        """Normalised (B, history * obs) and (B, variables) -> the mean training loss of the rows.

        inside (B, variables) is 1.0 for labels and 0.0 beyond an episode's end; `draws` is what `own_draws` returned;
        `frame` turns what an absolute policy's network says into values (`Variables.frame`).
        """

    @abstractmethod
    def plan(
        self, context: Tensor, values: Tensor, given: Tensor, request: Request, frame: Frame | None = None
    ) -> Tensor:
        """Normalised context (B, C), values (B, variables) used where `given` (B, variables) is true ->
        (B, variables), the steps of the chunk one after the other."""

    # ---- training ----

    def draw(self, n: int, generator: torch.Generator) -> Draws:
        """All random numbers that the losses of n rows need."""
        noise = displacement = None
        if self.settings.observation_noise:
            noise = torch.randn((n, self.settings.history * self.observation_dim), generator=generator)
        if self.settings.displacement and self.recovery is not None:
            scale = self.settings.displacement * torch.rand((n, 1), generator=generator)
            displacement = scale * torch.randn((n, len(self.recovery.gain)), generator=generator)
        return Draws(noise, displacement, self.own_draws(n, generator))

    def own_draws(self, n: int, generator: torch.Generator) -> Any:
        """The random numbers of `loss` itself: None, or a NamedTuple of tensors with n rows."""
        return None

    def forward(
        self, observations: Tensor, targets: Tensor, inside: Tensor, draws: Draws, labels: Tensor | None = None
    ) -> Tensor:
        """(B, history, obs), (B, horizon, act) as `Variables.targets` returns them, (B, horizon), and the codes of
        labels (B, L; see `common.labels`) where the policy has some -> the mean loss."""
        if self.recovery is not None and draws.displacement is not None:
            observations, corrected = self.recovery.displace(
                observations, targets, draws.displacement, self.settings.recovery_steps
            )
            if self.variables.representation != "absolute":  # a place leads back by itself
                low, high = (part[: self.action_dim] for part in (self.variables.low, self.variables.high))
                targets = corrected.clamp(low, high)
        context = self.normalizer.observations(observations).flatten(1)
        if draws.observation_noise is not None:
            context = context + self.settings.observation_noise * draws.observation_noise
        known, present = self.variables.have_values(inside, labels).float(), observations[:, -1]
        values = self.variables.encode(targets, present, self.label_values(labels))
        return self.loss(self.with_inputs(context, labels), values, known, draws.own, *self.frames(present))

    def with_inputs(self, context: Tensor, labels: Tensor | None) -> Tensor:
        """Normalised observations (B, history * obs), and, where labels are inputs, what is said of them (B, L), a
        class as a one among zeros; rows that are not told theirs are NaN, which the filter does not carry out."""
        if not self.labels or self.labels_as != "inputs":
            return context
        if labels is None or not bool(is_said(self.labels, labels).all(1).any()):
            names = ", ".join(repr(label.name) for label in self.labels)
            raise ValueError(f"a {self.kind} policy has to be told its labels ({names}): pass labels")
        told = label_inputs(self.labels, labels, self.normalizer).to(context)
        unread = told.isnan().any(1, keepdim=True)
        return torch.where(unread, torch.nan, torch.cat([context, told], 1))

    def label_values(self, labels: Tensor | None) -> Tensor | None:
        """Codes of labels (B, L) -> their values as a network reads them, 0 where nothing is said."""
        return None if labels is None else label_values(self.labels, labels, self.normalizer)

    @property
    def num_inputs(self) -> int:
        """Of the network that reads `with_inputs`."""
        told = input_size(self.labels) if self.labels_as == "inputs" else 0
        return self.settings.history * self.observation_dim + told

    def frame(self, present: Tensor) -> Frame | None:
        """Where conditionals lie, given the present observations (B, obs): those of actions as `Variables.frame` says,
        those of labels of real values relative to the present reading of the number, which often stays as it is."""
        frame, count = self.variables.frame(present), len(self._observed)
        if not count:
            return frame
        reading = self.normalizer.observations(present)[:, self._observed]
        if frame is None:
            frame = Frame(reading.new_zeros(len(present), len(self.variables)), reading.new_ones(len(self.variables)))
        return Frame(torch.cat([frame.shift[:, :-count], reading], 1), frame.scale)

    def frames(self, present: Tensor) -> tuple[Frame, ...]:
        """The frame of the present observations (B, obs), as the last argument of `loss` and `plan` where there is
        one."""
        frame = self.frame(present)
        return () if frame is None else (frame,)

    @classmethod
    def _takes_frames(cls) -> bool:
        """Whether the kind can be absolute: a kind of a user's own may be written without frames."""
        return all("frame" in signature(method).parameters for method in (cls.loss, cls.plan))

    def coverage(
        self, observations: Tensor, targets: Tensor, inside: Tensor, labels: Tensor | None = None
    ) -> dict[int, NDArray[np.float64]]:
        """For the central 50% and 90% intervals of a likelihood: the share of values inside, (variables,) each."""
        raise NotImplementedError(f"a {self.kind} policy has no likelihood")

    # ---- acting ----

    @property
    def device(self) -> torch.device:
        return self.variables.mean.device

    def seed(self, seed: int) -> None:
        """Seed the policy's own generator, used whenever a call brings none."""
        self._generator.manual_seed(check_count("seed", seed, 0))

    @renamed_keywords(given="command", given_mask="mask")
    def act(
        self,
        obs: ArrayLike,
        command: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        *,
        labels: Any = None,
        deterministic: bool = False,
        temperature: float | None = None,
        generator: torch.Generator | None = None,
    ) -> NDArray[Any]:
        """(obs,) or (B, obs) -> (act,) or (B, act). Dims where `mask` is true return `command` bit for bit.

        With a history the observation may be (B, history, obs); a single observation is repeated. `labels` says what
        the action is for, {'task': 'kettle', 'kettle_x': 0.3}. A class that is not said is inferred from the
        observation and the command; a number that is not said is not assumed.
        """
        observations, single = inputs.rows(obs, self.observation_dim, self.settings.history)
        if observations.ndim == 2:
            observations = np.repeat(observations[:, None], self.settings.history, axis=1)
        inputs.check_request(deterministic, temperature, generator)
        n, generator = len(observations), generator or self._generator
        held = inputs.commanded(command, mask, n, self.spaces.action)
        request = Request(deterministic, temperature, generator)
        assumed, _ = stepping.assume(self, self.initial_state(n), observations, held, labels, request)
        plan = stepping.planned(self, observations, held, request, assumed)
        action = stepping.merge(self.spaces.action, self.variables.actions(observations[:, -1], plan[:, 0]), held)
        return action[0] if single else action

    def belief(
        self,
        obs: ArrayLike,
        command: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        *,
        labels: Any = None,
        state: PolicyState | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        """{label: (B, K)}: what a policy that infers its labels believes of their classes, given the observation, the
        command, and what came before it (`state`, as `step` returns it); of a label of real values (B, 2), the mean and
        the standard deviation of what comes `steps` later, given the observation, the command and what is said. (K,)
        and (2,) for a single observation."""
        observations, single = inputs.rows(obs, self.observation_dim, self.settings.history)
        state = self._checked_state(state, len(observations))
        if observations.ndim == 2:
            observations = stepping.remember(self, state, observations)
        held = inputs.commanded(command, mask, len(observations), self.spaces.action)
        codes = self.said(labels, len(observations))
        beliefs = (*self.infer(state, observations, held, codes), *self.expect(observations, held, codes))
        return {label.name: found[0] if single else found for label, found in zip(self.labels, beliefs, strict=False)}

    @property
    def label_ranges(self) -> tuple[tuple[float, float], ...]:
        """The demonstrated range, with its margin, of the number that each label of real values is about."""
        return tuple(demonstrated(self.normalizer, label.observed) for label in numbers(self.labels))

    def said(self, labels: Any, rows: int) -> Codes:
        """(B, L): the codes of what is said of the labels, checked against their classes and the demonstrated range."""
        return checked_codes(self.labels, labels, rows, self.normalizer)

    def initial_state(self, n: int) -> PolicyState:
        """The state of n rows at the start of their episodes."""
        check_count("n", n, 0, inputs.MOST_ROWS)
        s = self.settings
        return PolicyState(
            history=np.zeros((n, s.history, self.observation_dim), np.float32),
            plan=np.full((n, s.horizon, self.action_dim), np.nan, np.float32),
            age=np.full(n, s.execute, np.int64),
            fresh=np.ones(n, bool),
        )

    @renamed_keywords(given="command", given_mask="mask")
    def step(
        self,
        obs: ArrayLike,
        state: PolicyState | None = None,
        command: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        *,
        labels: Any = None,
        deterministic: bool = False,
        temperature: float | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[NDArray[Any], PolicyState]:
        """As `act`, with a memory of the history, of the chunk being carried out and of noise that is kept.

        A row plans anew when its chunk is used up, when its episode begins, and, of a policy that `reads_command`, at
        every step with a command, so that the plan is always conditioned on the command. A policy that `follows_plans`
        keeps the steps after the present one as long as the command agrees with them.

        A label that is not said is inferred from all observations and commands of the episode (`policies.belief`). The
        plan is dropped when what it serves changes.
        """
        observations, single = inputs.rows(obs, self.observation_dim, self.settings.history)
        if observations.ndim != 2:
            raise ValueError("step keeps the history itself: pass one observation per row")
        inputs.check_request(deterministic, temperature, generator)
        n = len(observations)
        state = self._checked_state(state, n)
        held = inputs.commanded(command, mask, n, self.spaces.action)
        generator = generator or self._generator
        history = stepping.remember(self, state, observations)
        previous = stepping.previous(self, state, observations)
        noise = self.hold_noise(state, generator)
        request = Request(deterministic, temperature, generator, noise, previous)
        assumed, beliefs = stepping.assume(self, state, history, held, labels, request)
        due = state.fresh | (state.age >= self.settings.execute)
        if assumed is not None and state.assumed is not None:
            due = due | differ(assumed, state.assumed)
        plan = state.plan.copy()
        if held is not None and self.reads_command and not due.all():
            commanded = held.mask.any(1) & ~due
            if self.follows_plans and commanded.any():
                present, agrees = self.follow(
                    history[commanded],
                    held.rows(commanded),
                    stepping.ahead(self, state, commanded),
                    request.rows(torch.from_numpy(commanded)),
                    *([] if assumed is None else [assumed[commanded]]),
                )
                plan[np.flatnonzero(commanded)[agrees], state.age[commanded][agrees]] = present[agrees]
                commanded[commanded] = ~agrees
            due = due | commanded
        age = np.where(due, 0, state.age)
        if due.all():
            plan = stepping.planned(self, history, held, request, assumed)
        elif due.any():
            some, of_some = None if held is None else held.rows(due), request.rows(torch.from_numpy(due))
            plan[due] = stepping.planned(self, history[due], some, of_some, None if assumed is None else assumed[due])
        variables, rows = self.variables, np.arange(n)
        action = stepping.merge(self.spaces.action, variables.actions(observations, plan[rows, age]), held)
        plan[rows, age] = variables.targets(observations, action)
        listening = np.ones(n, bool) if beliefs else None
        after = PolicyState(history, plan, age + 1, np.zeros(n, bool), noise, beliefs, assumed, listening)
        return (action[0] if single else action), after

    def carried_out(
        self, state: PolicyState, actions: NDArray[np.floating], observations: NDArray[np.float32]
    ) -> PolicyState:
        """The state after the actions (B, act) were carried out, at these observations (B, obs), in place of the ones
        that `step` returned; a NaN in an observation stands for the last one that was read."""
        seen = np.where(np.isnan(observations), state.history[:, -1], observations)
        return state.carried_out(self.variables.targets(seen, actions))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """The interface of stable-baselines3; pass the returned state to the next call."""
        if isinstance(state, PolicyState) and episode_start is not None:
            state = state.reset(inputs.starts(episode_start, len(state)))
        return self.step(observation, state, deterministic=deterministic)

    @renamed_keywords(given_mask="given", query_mask="query")
    def log_prob(
        self,
        obs: ArrayLike,
        action: ArrayLike,
        *,
        query: ArrayLike | None = None,
        given: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """(B,): log p(action[query] | action[given], obs) per unit of the action space; by default all dims that are
        not given are queried."""
        raise NotImplementedError(f"a {self.kind} policy has no likelihood")

    def hold_noise(self, state: PolicyState, generator: torch.Generator) -> Tensor | None:
        """(B, ...): the random numbers of this step, for policies that keep some across steps."""
        return None

    @property
    def follows_plans(self) -> bool:
        """Whether `follow` is defined: a command during a chunk need not end it."""
        return False

    def follow(
        self,
        observations: NDArray[np.float32],
        held: inputs.Commanded,
        ahead: NDArray[np.float32],
        request: Request,
        assumed: Codes | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The present step (b, act) given the command, the plan `ahead` (b, horizon, act; NaN where there is none, its
        first step being the present one) and the labels `assumed` (b, L), as targets, and whether the plan agrees with
        the command (b,)."""
        raise NotImplementedError(f"a {self.kind} policy does not read its plan")

    def infer(
        self,
        state: PolicyState,
        observations: NDArray[np.float32],
        held: inputs.Commanded | None,
        said: Codes,
    ) -> tuple[NDArray[np.float64], ...]:
        """The beliefs (b, K) over the classes of each label, given those of the state, the present observations
        (b, history, obs), the command, and the labels (b, L) that are said."""
        return ()

    def decide(self, believed: NDArray[np.float64], before: NDArray[np.int64], request: Request) -> NDArray[np.int64]:
        """(b, K) -> (b,): the class that is assumed, -1 for none; `before` (b,) is the one of the last step."""
        found: NDArray[np.int64] = believed.argmax(1)
        return found

    def expect(
        self, observations: NDArray[np.float32], held: inputs.Commanded | None, codes: Codes
    ) -> tuple[NDArray[np.float64], ...]:
        """The mean and the standard deviation (b, 2) of each label of real values, given the present observations
        (b, history, obs), the command and what is said of other labels; a number that is said is certain."""
        return ()

    def calibrate(self, observations: Tensor, targets: Tensor, inside: Tensor, labels: Tensor | None = None) -> None:
        """Fit what is fitted to rows that the policy was not trained on, if there is anything."""

    # ---- plumbing ----

    def _checked_state(self, state: PolicyState | None, n: int) -> PolicyState:
        """A state of n rows; None: at the start of their episodes."""
        if state is None:
            return self.initial_state(n)
        check_instance("state", state, PolicyState)
        state.check(n, self.settings.history, self.settings.horizon, self.observation_dim, self.action_dim)
        return state
