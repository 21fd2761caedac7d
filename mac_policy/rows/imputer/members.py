"""The networks of the Imputer: members of an ensemble, computed together, which correct joint Gaussians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mac_policy.common.folders import Checked
from mac_policy.core.heads import GaussianMixture, Head
from mac_policy.core.heads.head import bounded
from mac_policy.core.networks.network import SetNetwork
from mac_policy.rows.imputer.encoding import Encoding
from mac_policy.rows.imputer.linear import Belief, Conditionals, JointGaussian

LEAST_LOG_PROBABILITY = math.log(1e-2)  # of a class, by the linear part
LEAST_SHARE = 1e-3  # of a class, in the table
MOST_CLASSES = 30  # of a category that is discriminated: beyond, the cube of their number would take most of the time
MIN_LOG_STD = -4.5  # of a component, in standard deviations of a column: bounds the density of rounded values
MAX_LOG_STD = 3.0


class Answers(NamedTuple):
    """Conditionals of M members for B rows: of the C numbers mixtures of K Gaussians, of each category its logits."""

    logits: Tensor  # (M, B, C, K)
    means: Tensor  # (M, B, C, K)
    log_stds: Tensor  # (M, B, C, K)
    classes: list[Tensor]  # (M, B, classes)


class Linears(nn.Module):
    """A linear layer for each of M members: (M, B, inputs) to (M, B, outputs)."""

    def __init__(self, members: int, inputs: int, outputs: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.rand(members, inputs, outputs) * 2 - 1) * scale / math.sqrt(inputs))
        self.bias = nn.Parameter(torch.zeros(members, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias[:, None], x, self.weight)


class ResidualBlocks(nn.Module):
    """A residual block for each member."""

    def __init__(self, members: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = Linears(members, width, width), Linears(members, width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        kept = self.dropout(torch.ones_like(hidden[:1]))  # of all members: random numbers take time
        out: Tensor = hidden + self.second(kept * self.first(hidden.relu()).relu())
        return out


class Members(nn.Module):
    """The conditionals of M members, each a joint Gaussian and a residual network.

    The Gaussian fills in the row. The network reads it, its standard deviations, what is seen, and the bins of what is
    seen, with which it makes steps as a tree does. The Gaussian's mean and standard deviation are the origin and the
    unit of what the network gives for a number; its log-probabilities of classes are the origin of a category's logits.
    The last layer starts near zero, so that an untrained member is about the Gaussian.
    """

    spread: Tensor
    numbers: Tensor
    number_dims: Tensor
    begins: Tensor

    def __init__(
        self,
        joint: JointGaussian,
        encoding: Encoding,
        *,
        num_components: int,
        width: int,
        depth: int,
        dropout: float,
        noise: float,
    ) -> None:
        super().__init__()
        self.joint, self.encoding, self.noise = joint, encoding, noise
        self.count, dims = joint.mean.shape
        sizes = encoding.classes
        self.num_variables, self.num_components = len(sizes), num_components
        self.num_outputs = max(3 * num_components, *sizes)
        self.first = Linears(self.count, 3 * dims + encoding.bin_dims, width)
        self.blocks = nn.Sequential(*(ResidualBlocks(self.count, width, dropout) for _ in range(depth)))
        self.last = Linears(self.count, width, self.num_variables * self.num_outputs, scale=0.01)
        begins = [sum(max(size, 1) for size in sizes[:variable]) for variable in range(len(sizes))]
        numbers = [variable for variable, size in enumerate(sizes) if not size]
        self.categories = [(v, slice(begins[v], begins[v] + size)) for v, size in enumerate(sizes) if size]
        self.register_buffer("numbers", torch.tensor(numbers, dtype=torch.long), persistent=False)
        self.register_buffer(
            "number_dims", torch.tensor([begins[v] for v in numbers], dtype=torch.long), persistent=False
        )
        self.register_buffer("begins", torch.tensor(begins), persistent=False)
        self.register_buffer("spread", GaussianMixture(num_components).spread, persistent=False)
        self.start = 0.5 * math.log(1 - float(self.spread.square().mean()))  # of components that make up variance 1

    def forward(self, features: Tensor, evidence: Tensor) -> Answers:
        """features (M, B, N, F), evidence (M, B, N): the rows of each member."""
        x, seen = self.encoding(features, evidence)
        given = self.joint(x, seen)
        mean, std = given.mean.to(x.dtype), given.std.to(x.dtype)
        out = self.last(self.hidden(x, seen, mean, std)).view(*x.shape[:2], self.num_variables, self.num_outputs)
        dims = self.number_dims
        logits, means, log_stds = self.mixture(out[:, :, self.numbers], mean[..., dims], std[..., dims], dims)
        classes = []
        for variable, own in self.categories:
            classes.append(self.class_logits(out[:, :, variable], self.linear_logits(given, own), own))
        if not self.training:  # the head of a loss does it
            logits = logits.log_softmax(-1)
        return Answers(logits, means, log_stds, classes)

    def hidden(self, x: Tensor, seen: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """What the last layer reads (M, B, W), of dimensions, what is seen and the Gaussian's answers (M, B, D)."""
        filled = torch.where(seen, x, mean)
        read = filled + self.noise * torch.randn_like(filled) if self.training else filled
        parts = [read, seen.to(x.dtype), torch.where(seen, 0.0, std), self.encoding.bins(x, seen)]
        found: Tensor = self.blocks(self.first(torch.cat(parts, -1))).relu()
        return found

    def mixture(self, out: Tensor, mean: Tensor, std: Tensor, dims: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, means and log standard deviations (..., K) of numbers with the dimensions `dims` (...), of the last
        layer's numbers (..., P) and the Gaussian's mean and standard deviation (...)."""
        logits, offsets, ratios = out[..., : 3 * self.num_components].chunk(3, -1)
        scale, center = (part.to(out.dtype)[dims] for part in (self.encoding.scale, self.encoding.center))
        unit = std * scale
        means = (mean * scale + center)[..., None] + unit[..., None] * (offsets + self.spread.to(out.dtype))
        return logits, means, bounded(unit.log()[..., None] + ratios + self.start, MIN_LOG_STD, MAX_LOG_STD)

    def class_logits(self, out: Tensor, linear: Tensor, dims: slice) -> Tensor:
        """Log probabilities (..., classes) of a category, of the last layer's numbers (..., P) and the Gaussian's log
        probabilities (..., classes)."""
        return (out[..., : dims.stop - dims.start] + linear.to(out.dtype)).log_softmax(-1)

    @torch.no_grad()
    def linear_logits(self, given: Conditionals | Belief, dims: slice) -> Tensor:
        """Log probabilities (M, B, classes) of a category by the Gaussian's conditionals.

        By Bayes' rule: the share of a class times the density of what is known under it, which is the density of the
        class's corner given what is known, over that given nothing. So classes are told apart as by a linear
        discriminant with missing values. Of many classes it is the Gaussian's mean of their dimensions.
        """
        scale, center = self.encoding.scale[dims], self.encoding.center[dims]
        if len(scale) > MOST_CLASSES:
            return (given.mean[..., dims] * scale + center).clamp(math.exp(LEAST_LOG_PROBABILITY), 1).log()
        corners = (torch.eye(len(scale), dtype=scale.dtype) - center) / scale
        prior_mean = self.joint.mean[:, None, dims]
        shares = (prior_mean * scale + center).clamp_min(LEAST_SHARE).log()
        before = _distances(corners, prior_mean, self.joint.prior_covariance(dims)[:, None])
        after = _distances(corners, given.mean[..., dims], given.covariance_of(dims))
        found: Tensor = (shares + 0.5 * (before - after)).log_softmax(-1).clamp_min(LEAST_LOG_PROBABILITY)
        return found

    def params(self, answers: Answers, head: Head) -> Tensor:
        """The numbers (B, N, P) from which `head` makes the mixtures and categories of one member, or of a mixture."""
        rows, _, components = answers.logits.shape[-3:]
        out = answers.logits.new_zeros(rows, self.num_variables, head.num_params)
        if len(self.numbers):
            out[:, self.numbers, : 3 * components] = mixture_params(*answers[:3])
        for (variable, _), logits in zip(self.categories, answers.classes, strict=True):
            out[:, variable, : logits.shape[-1]] = logits
        return out


def _distances(points: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Squared Mahalanobis distances (..., K) of points (K, d) from means (..., d) with covariances (..., d, d)."""
    off = (points - mean[..., None, :]).mT
    found: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), off, upper=False)
    return found.square().sum(-2)


def mixture_params(logits: Tensor, means: Tensor, log_stds: Tensor) -> Tensor:
    """The numbers (..., 3 K) from which a head makes mixtures."""
    mixture = _head_of(logits.shape[-1])
    return torch.cat([logits, means - mixture.spread.to(means), log_stds - mixture.start], -1)


@lru_cache
def _head_of(num_components: int) -> GaussianMixture:
    return GaussianMixture(num_components)


class MemberNetwork(SetNetwork):
    """The members side by side, for their training: M equal blocks of rows, one for each member."""

    def __init__(self, members: Members, head: Head) -> None:
        super().__init__(
            num_variables=members.num_variables,
            num_features=head.num_features,
            num_params=head.num_params,
            context_dim=0,
            num_modes=0,
        )
        self.members, self.head = members, [head]  # a list, so that the head is no part of the module twice

    def forward(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        count = self.members.count
        answers = self.members(features.unflatten(0, (count, -1)), evidence.unflatten(0, (count, -1)))
        logits, means, log_stds = (part.flatten(0, 1) for part in answers[:3])
        joined = Answers(logits, means, log_stds, [each.flatten(0, 1) for each in answers.classes])
        return self.members.params(joined, self.head[0])


class Ensemble(Checked, SetNetwork):
    """The mixture of all members, each asked about every row, and its calibration.

    widening (N,): factor by which a member's mixture of a number is stretched around its mean; heat: by which its
    logits of classes are divided.
    """

    widening: Tensor
    heat: Tensor

    def __init__(self, members: Members, head: Head) -> None:
        super().__init__(
            num_variables=members.num_variables,
            num_features=head.num_features,
            num_params=head.num_params,
            context_dim=0,
            num_modes=0,
        )
        self.members, self.head = members, [head]
        self.register_buffer("widening", torch.ones(members.num_variables))
        self.register_buffer("heat", torch.ones(()))

    def check(self) -> None:
        if not (bool((self.widening > 0).all()) and bool(self.heat > 0)):
            raise ValueError("the calibration of the members, widening and heat, must be above 0")

    def forward(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        count = self.members.count
        answers = self.members(features.expand(count, *features.shape), evidence.expand(count, *evidence.shape))
        mixtures = widened(answers[:3], self.widening[self.members.numbers])
        logits, means, log_stds = (part.movedim(0, -2).flatten(-2) for part in mixtures)
        classes = [(each / self.heat).log_softmax(-1).logsumexp(0) - math.log(count) for each in answers.classes]
        return self.members.params(Answers(logits, means, log_stds, classes), self.head[0])


def widened(parts: Sequence[Tensor], factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mixtures of normalised logits, means and log standard deviations (..., K), stretched around their means by
    `factor` (...)."""
    logits, means, log_stds = parts
    center = (logits.exp() * means).sum(-1, keepdim=True)
    return logits, center + factor[..., None] * (means - center), log_stds + factor[..., None].log()
