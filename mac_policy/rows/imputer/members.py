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
from mac_policy.rows.imputer.linear import JointGaussian

LEAST_PROBABILITY = 1e-2  # of a class, by the linear part
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
    unit of what the network gives for a number; its probabilities of the classes are the origin of a category's logits.
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
        mean, std = (part.to(x.dtype) for part in self.joint(x, seen))
        out = self.last(self.hidden(x, seen, mean, std)).view(*x.shape[:2], self.num_variables, self.num_outputs)
        dims = self.number_dims
        logits, means, log_stds = self.mixture(out[:, :, self.numbers], mean[..., dims], std[..., dims], dims)
        classes = [self.class_logits(out[:, :, variable], mean, dims) for variable, dims in self.categories]
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

    def class_logits(self, out: Tensor, mean: Tensor, dims: slice) -> Tensor:
        """Log probabilities (..., classes) of a category, of the last layer's numbers (..., P) and the Gaussian's mean
        (..., D)."""
        scale, center = (part.to(out.dtype)[dims] for part in (self.encoding.scale, self.encoding.center))
        linear = (mean[..., dims] * scale + center).clamp(LEAST_PROBABILITY, 1).log()
        return (out[..., : dims.stop - dims.start] + linear).log_softmax(-1)

    def params(self, answers: Answers, head: Head) -> Tensor:
        """The numbers (B, N, P) from which `head` makes the mixtures and categories of one member, or of a mixture."""
        rows, _, components = answers.logits.shape[-3:]
        out = answers.logits.new_zeros(rows, self.num_variables, head.num_params)
        if len(self.numbers):
            out[:, self.numbers, : 3 * components] = mixture_params(*answers[:3])
        for (variable, _), logits in zip(self.categories, answers.classes, strict=True):
            out[:, variable, : logits.shape[-1]] = logits
        return out


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
