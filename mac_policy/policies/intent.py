"""What a MAC hears of a person's intent: p(label | observation) and p(command | observation, label); and what it
expects of labels of real values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.labels import UNSAID, Codes, numbers
from mac_policy.core.frame import Frame
from mac_policy.core.heads.discrete import CategoricalConditional
from mac_policy.core.heads.mixed import real_part
from mac_policy.policies import inputs, quick_trunk
from mac_policy.policies.belief import Heard
from mac_policy.policies.request import Request
from mac_policy.policies.state import PolicyState
from mac_policy.policies.stepping import evidence

KEPT_SHARE = 0.2
"""A class that was drawn stays assumed as long as it is believed this much of what the likeliest one is."""
EPISODES = 15
"""Held-out episodes at most that the rules of beliefs are fitted to."""

if TYPE_CHECKING:
    from mac_policy.demonstrations.demonstrations import Demonstrations
    from mac_policy.policies.mac import MAC
    from mac_policy.policies.mac_settings import MACSettings


def infer(
    policy: MAC,
    state: PolicyState,
    observations: NDArray[np.float32],
    held: inputs.Commanded | None,
    said: Codes,
) -> tuple[NDArray[np.float64], ...]:
    """See `Policy.infer`; a class that is said is believed."""
    if not policy.categories:
        return ()
    policy.begun = None
    with torch.inference_mode():
        seen = torch.from_numpy(observations).to(policy.device)
        values, known = evidence(policy, held, len(seen), said)
        context = policy.normalizer.observations(seen).flatten(1)
        frame = policy.frame(seen[:, -1])
        heard = [
            None if (said[:, label] >= 0).all() else hear(policy, label, values, known, context, frame)
            for label in range(len(policy.categories))
        ]
    found = []
    for label, (rule, now) in enumerate(zip(policy.belief_rules, heard, strict=True)):
        told = said[:, label].astype(np.int64)
        sure = np.eye(len(policy.variables.categories[label].classes))[np.maximum(told, 0)]
        if now is None:
            found.append(sure)
            continue
        before = rule.start(now)
        if state.beliefs and state.listening is not None:
            before = np.where(state.listening[:, None], state.beliefs[label], before)
        after = rule.update(before, now, policy.settings.belief_change, policy.settings.belief_tempering)
        found.append(np.where((told >= 0)[:, None], sure, after))
    return tuple(found)


def decide(
    settings: MACSettings, believed: NDArray[np.float64], before: NDArray[np.int64], request: Request
) -> NDArray[np.int64]:
    """See `Policy.decide`: the class that is assumed (B,), -1 for none, given how much each is believed (B, K)."""
    rows = np.arange(len(believed))
    if settings.assume == "nothing":
        return np.full(len(believed), UNSAID)
    chosen = believed.argmax(1)
    if settings.assume == "sampled" and not request.deterministic and request.temperature != 0:
        level = torch.rand((len(believed), 1), generator=request.generator, dtype=torch.float64).numpy()
        drawn = (believed.cumsum(1) < level).sum(1).clip(max=believed.shape[1] - 1)
        keeps = (before >= 0) & (believed[rows, before] >= KEPT_SHARE * believed[rows, chosen])
        chosen = np.where(keeps, before, drawn)
    return np.where(believed[rows, chosen] >= settings.least_belief, chosen, UNSAID)


def expect(
    policy: MAC, observations: NDArray[np.float32], held: inputs.Commanded | None, codes: Codes
) -> tuple[NDArray[np.float64], ...]:
    """See `Policy.expect`. Training never shows a whole action: of a command of all dims the last one in canonical
    order is left aside."""
    observed = [label.observed for label in numbers(policy.labels)]
    if not policy.numbers:
        return ()
    with torch.inference_mode():
        seen = torch.from_numpy(observations).to(policy.device)
        values, known = evidence(policy, held, len(seen), codes)
        last = policy.variables.action_order[policy.action_dim - 1]
        known[:, last] &= ~known[:, : policy.action_dim].all(1)
        conditionals = policy.honest.conditionals(
            values,
            evidence=known,
            context=policy.normalizer.observations(seen).flatten(1),
            factorization=policy.factorization,
            frame=policy.frame(seen[:, -1]),
        )
        found = real_part(conditionals, len(policy.numbers), -1)
        mean = policy.normalizer.in_unit(found.mean, observed)
        std = found.std * policy.normalizer.observation_std[observed]
    told = codes[:, -len(observed) :].astype(np.float64)
    sure, expected = np.stack([told, 0 * told], -1), torch.stack([mean, std], -1).double().cpu().numpy()
    both = np.where(np.isnan(sure), expected, sure)
    return tuple(both.swapaxes(0, 1))


def fit(policy: MAC, answers: Sequence[tuple[MAC, Demonstrations]], seed: int = 0) -> None:
    """Fit the rules of all beliefs of a policy to episodes that the policies that answer were not trained on: each is
    replayed with its own actions as the commands of dims that are drawn for the episode."""
    random = np.random.default_rng(seed)
    for label, rule in enumerate(policy.belief_rules):
        heard = []
        for answering, demos in answers:
            for episode in range(min(len(demos), EPISODES // len(answers) or 1)):
                truth = demos.select([episode]).labels
                if truth is not None:
                    masks = _masks(random, policy.action_dim)
                    heard += [(replayed(answering, demos, episode, label, mask), truth[:, label]) for mask in masks]
        if heard:
            rule.fit(heard)


def _masks(random: np.random.Generator, dims: int) -> NDArray[np.bool_]:
    """(3, dims): nothing held, then one and several dims."""
    sizes = (0, 1, int(random.integers(1, dims + 1)))
    return np.stack([random.permutation(dims) < size for size in sizes])


def replayed(policy: MAC, demos: Demonstrations, episode: int, label: int, mask: NDArray[np.bool_]) -> Heard:
    """What is heard at every step of an episode when its own actions are commanded where `mask` (act,) is true."""
    one = demos.select([episode])
    observations = one.observations[one.windows(policy.settings.history, 1).history]
    masks = np.tile(mask, (one.steps, 1))
    held = inputs.Commanded(one.actions, masks) if mask.any() else None
    with torch.inference_mode():
        seen = torch.from_numpy(observations).to(policy.device)
        values, known = evidence(policy, held, one.steps)
        context = policy.normalizer.observations(seen).flatten(1)
        return hear(policy, label, values, known, context, policy.frame(seen[:, -1]), every=True)


def hear(
    policy: MAC,
    label: int,
    values: Tensor,
    known: Tensor,
    context: Tensor,
    frame: Frame | None,
    every: bool = False,
) -> Heard:
    """Of one label, for rows with these values (B, variables) where `known` (B, variables): commanded dims and labels
    that are said; what is said of the label itself is left aside.

    A class that the rule rules out whatever is commanded need not be heard, unless `every` one is to be."""
    column, number = policy.categories[label], len(policy.variables.categories[label].classes)
    model, n = policy.honest, len(values)
    commanded, labels = known.clone(), known.clone()
    commanded[:, policy.action_dim :] = False
    labels[:, : policy.variables.chunk] = False
    labels[:, column] = False
    if policy._is_quick(n) and quick_trunk.suits(model.network):
        reader = policy.begin(model.network, context)
        return _hear_one(policy, reader, label, values, labels, commanded, frame, every)
    nothing = model.asking.at_once(labels, policy.factorization, None)
    shown = torch.where(labels, values, torch.zeros_like(values))
    params = model.network(model.head.features(shown), nothing, model.network.encode(context), None)
    prior = CategoricalConditional(params[:, column, :number].float()).log_probs
    command = torch.zeros_like(prior)
    if bool(commanded.any()):
        possible = policy.belief_rules[label].possible(prior.double().cpu().numpy())
        most = number if every else int(possible.sum(1).max())
        classes = prior.topk(most).indices
        x = values.repeat_interleave(most, 0)
        x[:, column] = classes.flatten().to(x)
        query, given = (mask.repeat_interleave(most, 0) for mask in (commanded, labels))
        given[:, column] = True
        heard = model.log_prob(
            x,
            query=query,
            given=given,
            factorization=policy.factorization,
            context=context,
            frame=None if frame is None else frame.repeat(most),
            rows_per_context=most,
        )
        command.scatter_(1, classes, heard.view(n, most))
    return Heard(prior.double().cpu().numpy(), command.double().cpu().numpy())


def _hear_one(
    policy: MAC,
    reader: quick_trunk.Query,
    label: int,
    values: Tensor,
    labels: Tensor,
    commanded: Tensor,
    frame: Frame | None,
    every: bool,
) -> Heard:
    """The quick form of `hear` for one row."""
    x, column = values[0].numpy(), policy.categories[label]
    number = len(policy.variables.categories[label].classes)
    quick_trunk.see_given(reader, x.tolist(), labels[0].tolist())
    logits = reader.params(column)[:number]
    dims = [dim for dim in policy.variables.action_order[: policy.action_dim] if commanded[0, dim]]
    prior = (logits - quick_trunk.log_sum(logits)).astype(np.float64)[None]
    command = np.zeros((1, number))
    if dims:
        possible = policy.belief_rules[label].possible(prior)[0] | every
        classes = possible.nonzero()[0]
        densities = quick_trunk.Densities(policy.honest_mixture, policy.widened, frame)
        command[0, classes] = densities.along(reader, reader.with_class(column, classes), dims, x)
    return Heard(prior, command)
