"""How a network is asked. The two kinds of networks differ here and nowhere else.

A set network learns from masks and gives the conditionals of one evidence set in a pass. A path network learns from
queries with their whole paths and gives all conditionals along a path in a pass, or one after another from a cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from mac_policy.core.factorization import Factorization, whole_path
from mac_policy.core.frame import framed
from mac_policy.core.heads import Conditional, Head
from mac_policy.core.heads.head import at_least_float32
from mac_policy.core.networks import Network, PathNetwork, SetNetwork
from mac_policy.core.networks.path_network import PathState
from mac_policy.core.question import Question, Steps, portions, ranks_in_order, with_order_of_given
from mac_policy.core.training_draws import TrainingDraws

Rows: TypeAlias = Tensor | slice
Variables: TypeAlias = Tensor | int
Choose = Callable[[Conditional, Rows, Variables], Tensor]
"""Conditionals of (A,) variables, their rows and their indices, as of a `Step` -> the values (A,)."""


class Pass(NamedTuple):
    """One network pass of a likelihood."""

    rows: Tensor  # (R,) long, rows of the question
    known: Tensor  # (R, N), what the network reads beside the features: evidence (bool) or ranks (long)
    answers: Tensor  # (R, N) bool, the variables whose conditionals count


class Step(NamedTuple):
    """The conditionals of A variables whose values are chosen together."""

    rows: Rows  # (A,) long, or all rows
    variables: Variables  # (A,) long, or the one that all rows answer
    params: Tensor  # (A, P)


class Asking(ABC):
    """A network and a head, asked as networks of this kind are asked."""

    whole_paths: bool  # whether one pass answers a whole path

    def __init__(self, network: Network, head: Head) -> None:
        self.network, self.head = network, head

    @abstractmethod
    def draw(self, factorization: Factorization, n: int, generator: torch.Generator | None) -> TrainingDraws:
        """The random draws of a training step on n rows."""

    @abstractmethod
    def ranks(
        self, factorization: Factorization, *, query: Tensor, given: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """The path of each row, (B, N) long on the CPU."""

    @abstractmethod
    def at_once(
        self, evidence: Tensor, factorization: Factorization | None, generator: torch.Generator | None
    ) -> Tensor:
        """What the network reads to answer all unseen variables together, (B, N)."""

    def visible(self, known: Tensor) -> Tensor:
        """Where the network reads values, (B, N) bool: on the evidence, or on all variables that have a rank."""
        return known if known.dtype == torch.bool else known < self.network.num_variables

    @abstractmethod
    def passes(self, question: Question, ranks: Tensor, rows_per_pass: int) -> Iterator[Pass]:
        """The passes that answer every query along its path."""

    @abstractmethod
    def steps(self, question: Question, ranks: Tensor, x: Tensor, copies: int) -> Iterator[Step]:
        """The steps of all paths; before the next one, x (B, N) holds the values of the last."""

    @abstractmethod
    def lockstep(self, question: Question, order: list[int], x: Tensor) -> Iterator[Step]:
        """As `steps`, along one order for all rows, whose given variables may differ from row to row."""

    def log_prob(
        self, question: Question, ranks: Tensor, rows_per_pass: int, generator: torch.Generator | None
    ) -> Tensor:
        """(B,): the sum of all conditionals along each path."""
        features = self.head.features(question.x)
        terms, owners = [], []
        for rows, known, answers in self.passes(question, ranks, rows_per_pass):
            part = question.rows(rows)
            params = self.answered(part, features[rows], known, answers)
            item, variable = answers.nonzero(as_tuple=True)
            asked = framed(self.head, params, part.frame, item, variable)
            conditional = self.head(asked, variables=variable, generator=generator)
            terms.append(conditional.log_prob(part.x[item, variable]))
            owners.append(rows[item])
        if not terms:
            like = at_least_float32(next(self.network.parameters()))
            return question.x.new_zeros(len(question.x), dtype=like.dtype)
        found = torch.cat(terms)
        return found.new_zeros(len(question.x)).index_add(0, torch.cat(owners), found)

    def answered(self, part: Question, features: Tensor, known: Tensor, answers: Tensor) -> Tensor:
        """(A, P): the parameters of a pass's answers."""
        params = self.network(features, known, part.encoded, part.mode)
        return self.head.after(params, part.x, answers)[answers]

    def walk(
        self,
        question: Question,
        path: Tensor | list[int],
        choose: Choose,
        *,
        copies: int = 1,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """x (B, N) with the values of the queried variables chosen one step after another along each path.

        `path`: ranks (B, N), or a list of the queried variables in the order that all rows walk in lockstep.
        `copies`: the rows are that many copies of the same rows.
        """
        x = question.x.clone()
        steps = self.lockstep(question, path, x) if isinstance(path, list) else self.steps(question, path, x, copies)
        for rows, variables, params in steps:
            which = torch.as_tensor(variables, device=x.device)
            params = framed(self.head, params, question.frame, rows, variables)
            conditional = self.head(params, variables=which, generator=generator)
            x[rows, variables] = choose(conditional, rows, variables).to(x.dtype)
        return x


class SetAsking(Asking):
    """Set networks: one pass for each step."""

    whole_paths = False

    def draw(self, factorization: Factorization, n: int, generator: torch.Generator | None) -> TrainingDraws:
        return factorization.training_masks(n, generator)

    def ranks(
        self, factorization: Factorization, *, query: Tensor, given: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        return factorization.ranks(query=query, given=given, generator=generator)

    def at_once(
        self, evidence: Tensor, factorization: Factorization | None, generator: torch.Generator | None
    ) -> Tensor:
        return evidence

    def passes(self, question: Question, ranks: Tensor, rows_per_pass: int) -> Iterator[Pass]:
        for rows, steps in portions(ranks, question.query, rows_per_pass):
            rank = ranks[rows]
            yield Pass(rows, rank < steps[:, None], rank == steps[:, None])

    def answered(self, part: Question, features: Tensor, known: Tensor, answers: Tensor) -> Tensor:
        if self.head.num_turns > 1:  # what is drawn in turns depends on the parameters of others
            return super().answered(part, features, known, answers)
        return cast(SetNetwork, self.network).some(features, known, part.encoded, part.mode, answers)

    def steps(self, question: Question, ranks: Tensor, x: Tensor, copies: int) -> Iterator[Step]:
        steps = int(ranks.masked_fill(ranks == ranks.shape[1], -1).max()) + 1 if ranks.numel() else 0
        for step in range(steps):
            together = ranks == step
            row, variable = together.nonzero(as_tuple=True)
            rows, item = row.unique_consecutive(return_inverse=True)
            part, values, rank = question, x, ranks
            if len(rows) < len(x):
                part, values, rank, together = question.rows(rows), x[rows], ranks[rows], together[rows]
            features, evidence = self.head.features(values), part.given | (rank < step)
            if self.head.num_turns == 1:
                yield Step(row, variable, self.answered(part, features, evidence, together))
                continue
            params = self.network(features, evidence, part.encoded, part.mode)
            for now in self._turns(variable):
                # Variables that are drawn in turns are read from x again, which holds the values of earlier turns.
                after = self.head.after(params, x if values is x else x[rows], together)
                yield Step(row[now], variable[now], after[item[now], variable[now]])

    def lockstep(self, question: Question, order: list[int], x: Tensor) -> Iterator[Step]:
        """All rows answer a variable together, those that are given it included: a column needs no indices."""
        queried, evidence = question.query.any(0).tolist(), question.given.clone()
        for variable in (each for each in order if queried[each]):
            wanted = torch.zeros_like(evidence)
            wanted[:, variable] = True
            yield Step(slice(None), variable, self.answered(question, self.head.features(x), evidence, wanted))
            evidence[:, variable] = True

    def _turns(self, variables: Tensor) -> Iterator[Tensor]:
        """The variables of a step that are drawn together."""
        turn = self.head.turn(variables, self.network.num_variables)
        yield from (turn == each for each in range(self.head.num_turns))


class PathAsking(Asking):
    """Path networks: one pass for a whole path, or a cache of what has been read."""

    whole_paths = True

    def __init__(self, network: Network, head: Head) -> None:
        if head.num_turns > 1:
            raise ValueError(
                f"{type(head).__name__} draws the channels of a pixel in turns, which a path network has no step for: "
                "give it channels=1, so that each is a variable of its own"
            )
        super().__init__(network, head)

    def draw(self, factorization: Factorization, n: int, generator: torch.Generator | None) -> TrainingDraws:
        return factorization.training_queries(n, generator)

    def ranks(
        self, factorization: Factorization, *, query: Tensor, given: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        return whole_path(factorization, query=query, given=given, generator=generator)

    def at_once(
        self, evidence: Tensor, factorization: Factorization | None, generator: torch.Generator | None
    ) -> Tensor:
        """Equal ranks for all unseen variables; the evidence in the order of `factorization`, if order matters."""
        if factorization is None or not cast(PathNetwork, self.network).given_in_order:
            order = evidence.long().cumsum(1) - 1
        else:
            nothing = torch.zeros_like(evidence)
            order = factorization.ranks(query=evidence, given=nothing, generator=generator).to(evidence.device)
        return with_order_of_given(torch.zeros_like(order), evidence, order)

    def passes(self, question: Question, ranks: Tensor, rows_per_pass: int) -> Iterator[Pass]:
        """Rows of similar length share passes; a row without a query needs none."""
        length = (ranks < ranks.shape[1]).sum(1).masked_fill(~question.query.any(1), 0)
        by_length = length.argsort(descending=True, stable=True)[: int((length > 0).sum())]
        for rows in by_length.split(rows_per_pass) if len(by_length) else ():
            yield Pass(rows, ranks[rows], question.query[rows])

    def steps(self, question: Question, ranks: Tensor, x: Tensor, copies: int) -> Iterator[Step]:
        none = ranks.shape[1]
        queried = ((ranks >= 0) & (ranks < none)).any(1).nonzero()[:, 0]
        if not len(queried):
            return
        if len(queried) < len(ranks):
            question, ranks = question.rows(queried), ranks[queried]
        steps, network = Steps(ranks), cast(PathNetwork, self.network)
        state, rows = self._begin(question, ranks, steps, copies), queried[steps.rows]
        for step in range(steps.number):
            targets = steps.targets(step)
            here = rows[: len(targets)]
            item, column = (targets < none).nonzero(as_tuple=True)
            yield Step(here[item], targets[item, column], network.ask(state, targets)[item, column])
            told = targets.clamp(max=none - 1)
            network.tell(state, targets, self.head.features(x[here[:, None], told], told))

    def lockstep(self, question: Question, order: list[int], x: Tensor) -> Iterator[Step]:
        """Every row walks its own path; the given variables come first, in the order in which they would be queried."""
        places = order + [variable for variable in range(x.shape[1]) if variable not in order]
        along, given = torch.tensor(places, device=x.device), question.given
        ranks = ranks_in_order(along, query=question.query, given=given)
        of_given = ranks_in_order(along, query=given, given=torch.zeros_like(given))
        yield from self.steps(question, with_order_of_given(ranks, given, of_given), x, 1)

    def _begin(self, question: Question, ranks: Tensor, steps: Steps, copies: int) -> PathState:
        """What the network keeps of the given variables; of copies of the same rows they are read once."""
        network, distinct = cast(PathNetwork, self.network), len(ranks) // copies
        given = ranks.clamp(max=0) if network.given_in_order else ranks < 0
        if not torch.equal(given, given[:distinct].repeat(copies, 1)):
            distinct = len(ranks)
        part = question.rows(torch.arange(distinct, device=ranks.device))
        state = network.begin(self.head.features(part.x), ranks[:distinct], part.encoded, part.mode, steps.columns)
        state.select(steps.rows % max(distinct, 1))
        return state


KINDS: dict[str, type[Asking]] = {"set": SetAsking, "path": PathAsking}


def asking(network: Network, head: Head) -> Asking:
    """The network and its head, asked as the network's kind is asked."""
    return KINDS[network.kind](network, head)
