"""AnyOrderModel: p(any variables | any others) from one network of univariate conditionals."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mac_policy.common.checks import check_count, check_positive
from mac_policy.core.asking import Asking, Rows, Variables, asking
from mac_policy.core.checks import (
    check_disjoint,
    check_entries,
    check_factorization,
    check_generator,
    check_mask,
    check_rows,
    check_values,
)
from mac_policy.core.factorization import Factorization
from mac_policy.core.frame import Frame, framed, framed_all
from mac_policy.core.heads import Conditional, Head, Mixed
from mac_policy.core.networks import Network
from mac_policy.core.question import Question, in_fewer_steps
from mac_policy.core.training_draws import TrainingDraws, check_kind, known_and_weights
from mac_policy.core.untrained import EdgeWatch, warn_of_scale

VARIABLES_PER_PASS = 65_536


class AnyOrderModel(nn.Module):
    """A network that reads evidence and a head that turns its output into univariate conditionals.

    x: values (B, N). evidence, query, given, missing: bool (B, N), or one row (N,) for all. context: (B, C).
    frame: where the conditionals of real variables lie (`core.frame.Frame`); None: where the network says.
    A missing variable has no value: it is neither evidence nor queried.

    >>> import torch
    >>> from mac_policy.core import AnyOrderModel, MaskTuned, UniformCardinality
    >>> from mac_policy.core.heads import GaussianMixture
    >>> from mac_policy.core.networks import MLP
    >>> head = GaussianMixture(5)
    >>> network = MLP(num_variables=9, num_features=head.num_features, num_params=head.num_params)
    >>> model = AnyOrderModel(network, head)
    >>> given = torch.arange(9) < 4
    >>> paths = MaskTuned(UniformCardinality(9))
    >>> model.log_prob(torch.zeros(2, 9), query=~given, given=given, factorization=paths).shape
    torch.Size([2])

    A set network answers one step in a pass and trains on `factorization.training_masks(n, generator)`; a path network
    (`network.kind`) answers a whole path in one pass, keeps what it has read in a cache while it is sampled, and
    trains on `factorization.training_queries(n, generator)`. Everything else is the same for both.

    `rows_per_pass` bounds the size of a network pass in log_prob, which conditionals of different rows and steps share;
    by default it is as many rows as have 65,536 variables, and at least 16: larger passes leave a processor's cache.
    A query whose path has conditionals that the factorisation never trains gives an `UntrainedQueryWarning`, once.
    `validate=False` skips the checks of values in hot loops; shapes are always checked. A `generator` is one of the
    CPU, wherever the model is: paths and values are drawn there and moved.
    """

    def __init__(
        self,
        network: Network,
        head: Head,
        *,
        rows_per_pass: int | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__()
        check_fit(network, head)
        asking(network, head)  # refuses a head that the network's kind cannot serve
        self.network, self.head = network, head
        self.num_variables: int = check_count("the network's num_variables", network.num_variables)
        usual = max(16, VARIABLES_PER_PASS // self.num_variables)
        self.rows_per_pass = check_count("rows_per_pass", usual if rows_per_pass is None else rows_per_pass)
        self.validate = validate
        self._watch = EdgeWatch()
        self._scale_is_known = False

    @property
    def asking(self) -> Asking:
        """How the network is asked."""
        return asking(self.network, self.head)

    def conditionals(
        self,
        x: Tensor,
        *,
        evidence: Tensor,
        context: Tensor | None = None,
        mode: Tensor | None = None,
        generator: torch.Generator | None = None,
        factorization: Factorization | None = None,
        frame: Frame | None = None,
    ) -> Conditional:
        """p(x_i | x_evidence) for every unseen variable i at once, as distributions of batch shape (B, N).

        A path network with causal attention reads the evidence in the order of `factorization` (0, 1, ... if None).
        """
        params = self.conditional_params(
            x,
            evidence=evidence,
            context=context,
            mode=mode,
            generator=generator,
            factorization=factorization,
            frame=frame,
        )
        return self.head(params, generator=generator)

    def conditional_params(
        self,
        x: Tensor,
        *,
        evidence: Tensor,
        context: Tensor | None = None,
        mode: Tensor | None = None,
        generator: torch.Generator | None = None,
        factorization: Factorization | None = None,
        frame: Frame | None = None,
    ) -> Tensor:
        """What the head makes these `conditionals` of, (B, N, num_params)."""
        check_values(x, self.num_variables)
        check_generator(generator)
        evidence = check_mask("evidence", evidence, len(x), self.num_variables)
        if self.validate:
            self.head.check(x, evidence)
        self._watch.look(factorization, torch.where(evidence, -1, 0), self.asking.whole_paths)
        known = self.asking.at_once(evidence, factorization, generator)
        params = self._params(x, known, self._encode(context, len(x)), mode)
        return framed_all(self.head, self.head.after(params, x, torch.zeros_like(evidence)), frame)

    def answers(
        self, x: Tensor, draws: TrainingDraws, context: Tensor | None = None, frame: Frame | None = None
    ) -> Conditional:
        """The conditionals that training draws ask for, as distributions of batch shape (B, N)."""
        params = self._params(x, draws.known, self._encode(context, len(x)), draws.mode)
        return self.head(framed_all(self.head, self.head.after(params, x, draws.weights > 0), frame))

    def loss(
        self,
        x: Tensor,
        draws: TrainingDraws,
        context: Tensor | None = None,
        missing: Tensor | None = None,
        generator: torch.Generator | None = None,
        evidence_values: Tensor | None = None,
        rows_per_context: int = 1,
        frame: Frame | None = None,
    ) -> Tensor:
        """The batch mean of - sum_i weights_i log p(x_i | x_evidence), a scalar; the evidence of a path network are
        the variables before i on the path.

        Each row of `context` serves `rows_per_context` rows of x that follow one another: it is encoded once, so
        that several masks of the same values cost little where the network reads the context with a trunk.
        Hiding missing variables from a path leaves a path through the others, so no weight is to be changed.
        `evidence_values` (B, N): what the network reads in place of x, for instance values with noise.
        """
        check_values(x, self.num_variables)
        if missing is not None:
            missing = check_mask("missing", missing, len(x), self.num_variables)
        check_kind(draws, self.network.kind)
        known, weights = known_and_weights(draws, x, missing, self.validate)
        read = x if evidence_values is None else evidence_values
        if self.validate:
            self.head.check(read, self.asking.visible(known))
            self.head.check(x, weights > 0)
            self._look_at_scale(read, self.asking.visible(known) | (weights > 0))
        encoded = self._encode(context, len(x), rows_per_context)
        params = self._params(read, known, encoded, draws.mode)
        params = self.head.after(params, x, weights > 0)
        asked = weights.reshape(-1).nonzero()[:, 0]
        variables = asked % self.num_variables
        params = params.reshape(-1, params.shape[-1])[asked]
        params = framed(self.head, params, frame, asked // self.num_variables, variables)
        losses = self.head.loss(params, x.reshape(-1)[asked], generator=generator, variables=variables)
        return (weights.reshape(-1)[asked] * losses).sum() / max(len(x), 1)

    def log_prob(
        self,
        x: Tensor,
        *,
        query: Tensor,
        given: Tensor | None = None,
        factorization: Factorization,
        context: Tensor | None = None,
        orders: int = 1,
        missing: Tensor | None = None,
        generator: torch.Generator | None = None,
        frame: Frame | None = None,
        rows_per_context: int = 1,
    ) -> Tensor:
        """log p(x_query | x_given) of every row along the path of `factorization`, (B,).

        Every row may have masks of its own; p(nothing) = 1. Where the path is random, `orders` paths are drawn and
        their probabilities averaged (in log space). A set network computes only the steps that a row still needs, and
        steps of different rows share passes; a path network answers a row in one pass. `rows_per_context` as in `loss`.
        """
        check_count("orders", orders)
        check_generator(generator)
        question = self._question(
            x,
            query=query,
            given=given,
            missing=missing,
            factorization=factorization,
            context=context,
            frame=frame,
            rows_per_context=rows_per_context,
        )
        if factorization.deterministic:
            orders = 1
        paths = []
        for _ in range(orders):
            ranks = self._ranks(question, factorization, generator)
            self._watch.look(factorization, ranks, self.asking.whole_paths)
            paths.append(self.asking.log_prob(question, ranks, self.rows_per_pass, generator))
        return torch.stack(paths).logsumexp(0) - math.log(orders)

    @torch.no_grad()
    def sample(
        self,
        x: Tensor,
        *,
        given: Tensor,
        factorization: Factorization,
        context: Tensor | None = None,
        num_samples: int = 1,
        steps: int | None = None,
        temperature: float = 1.0,
        missing: Tensor | None = None,
        generator: torch.Generator | None = None,
        frame: Frame | None = None,
    ) -> Tensor:
        """x with all that is not given (nor missing) drawn along the path; (B, N), or (num_samples, B, N) if > 1.

        `steps` below the number of variables fills several of them at once, as if they were independent. A
        temperature T draws each conditional from a density proportional to p^(1/T), of mixtures of Gaussians
        component by component. Whole numbers in x become floating-point ones where the head has real values. A path
        network keeps keys and values of all rows until the last step, and reads what shared a step by its number.
        """
        check_values(x, self.num_variables)
        check_generator(generator)
        check_count("num_samples", num_samples)
        check_positive("temperature", temperature)
        if steps is not None:
            check_count("steps", steps)
        if not self.head.discrete and not x.is_floating_point():
            x = x.to(torch.get_default_dtype())
        given = check_mask("given", given, len(x), self.num_variables)
        query = ~given if missing is None else ~given & ~check_mask("missing", missing, len(x), self.num_variables)
        question = self._question(
            x,
            query=query,
            given=given,
            missing=missing,
            factorization=factorization,
            context=context,
            know_query=False,
            frame=frame,
        )
        question = question.repeat(num_samples)
        ranks = self._ranks(question, factorization, generator)
        if steps is not None:
            ranks = in_fewer_steps(ranks, question.query, steps)
        self._watch.look(factorization, ranks, self.asking.whole_paths)

        def draw(conditional: Conditional, rows: Rows, variables: Variables) -> Tensor:
            return conditional.sample(temperature, generator)

        filled = self.asking.walk(question, ranks, draw, copies=num_samples, generator=generator)
        filled = torch.where(question.query, filled, x.repeat(num_samples, 1))
        return filled if num_samples == 1 else filled.view(num_samples, *x.shape)

    def _look_at_scale(self, x: Tensor, where: Tensor) -> None:
        """Warn about real values far from unit size, in the first batch of a training."""
        if not self._scale_is_known and not self.head.discrete:
            warn_of_scale(x[where])
        self._scale_is_known = True

    def _params(self, x: Tensor, known: Tensor, encoded: Tensor | None, mode: Tensor | None) -> Tensor:
        """`known` (B, N): evidence for a set network, ranks for a path network."""
        seen = torch.where(self.asking.visible(known), x, torch.zeros_like(x))
        return self.network(self.head.features(seen), known, encoded, mode)

    def _ranks(self, question: Question, factorization: Factorization, generator: torch.Generator | None) -> Tensor:
        masks = {"query": question.query, "given": question.given}
        return self.asking.ranks(factorization, **masks, generator=generator).to(question.x.device)

    def _question(
        self,
        x: Tensor,
        *,
        query: Tensor,
        given: Tensor | None,
        missing: Tensor | None,
        factorization: Factorization,
        context: Tensor | None,
        know_query: bool = True,
        frame: Frame | None = None,
        rows_per_context: int = 1,
    ) -> Question:
        check_factorization(factorization)
        if factorization.num_variables != self.num_variables:
            raise ValueError(
                f"the factorization is over {factorization.num_variables} variables, "
                f"the model over {self.num_variables}"
            )
        check_values(x, self.num_variables)
        query = check_mask("query", query, len(x), self.num_variables)
        given = torch.zeros_like(query) if given is None else given
        given = check_mask("given", given, len(x), self.num_variables)
        check_disjoint(query=query, given=given)
        if missing is not None:
            missing = check_mask("missing", missing, len(x), self.num_variables)
            check_disjoint(missing=missing, query=query)
            check_disjoint(missing=missing, given=given)
        known = query | given if know_query else given
        if self.validate:
            self.head.check(x, known)
        x = torch.where(known, x, torch.zeros_like(x))
        mode = factorization.path_mode(len(x))
        encoded = self._encode(context, len(x), rows_per_context)
        return Question(x, query, given, encoded, None if mode is None else mode.to(x.device), frame)

    def _encode(self, context: Tensor | None, rows: int, rows_per_context: int = 1) -> Tensor | None:
        """What the network reads in the context, once for all that follows, for each of the rows."""
        encoded = self.network.encode(context)
        contexts = rows // check_count("rows_per_context", rows_per_context)
        if context is not None:
            check_rows("context", context, contexts)
            if self.validate:
                check_entries("context", context, ~context.isfinite(), "a finite number")
        return encoded if encoded is None or rows_per_context == 1 else encoded.repeat_interleave(rows_per_context, 0)


def check_fit(network: Network, head: Head) -> None:
    """Raise unless this is one head, and the network has the sizes that it asks for."""
    if not isinstance(head, Head):
        several = isinstance(head, (list, tuple)) and all(isinstance(each, Head) for each in head)
        remedy = (
            "; variables of different kinds have one head, Mixed([head, ...], which=[0, 1, ...])" if several else ""
        )
        raise ValueError(f"head must be one Head for all variables, got {type(head).__name__}{remedy}")
    for size in ("num_features", "num_params"):
        if getattr(network, size) != getattr(head, size):
            raise ValueError(
                f"the network was built with {size}={getattr(network, size)}, {type(head).__name__} needs "
                f"{size}={getattr(head, size)}"
            )
    if isinstance(head, Mixed) and len(head.which) != network.num_variables:
        raise ValueError(f"Mixed names a head for {len(head.which)} variables, the network has {network.num_variables}")
