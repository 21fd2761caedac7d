"""A mixture of Gaussians whose spreads are corrected on data that its network was not trained on."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from mac_policy.core.heads.continuous import GaussianMixture, MixtureConditional, RealHead


class Widened(RealHead):
    """The conditionals of a mixture head with each component N(m, s^2) replaced by
    (1 - share) N(m, (narrow s)^2) + share N(m, (wide s)^2), for each variable with its own numbers.

    A network that has learned its few training rows by heart says spreads that are too small. The factors are fitted
    to other rows by `fit`; until then they change nothing. Buffers (N,): log_narrow, log_wide, logit_share. The N
    variables are numbered from `first` on.

    >>> import torch
    >>> from mac_policy.core.heads import GaussianMixture
    >>> Widened(GaussianMixture(3), 2)(torch.zeros(1, 2, 9)).means.shape
    torch.Size([1, 2, 6])
    """

    log_narrow: Tensor
    log_wide: Tensor
    logit_share: Tensor

    def __init__(self, head: GaussianMixture, num_variables: int, first: int = 0) -> None:
        super().__init__()
        self.num_params, self.first = head.num_params, first
        self._head = (head,)  # not a submodule: its network's policy owns it
        for name in ("log_narrow", "log_wide", "logit_share"):
            self.register_buffer(name, torch.zeros(num_variables))

    def over(self, head: GaussianMixture) -> Widened:
        """The same factors, now and after another fit, on the conditionals of another head."""
        other = copy.copy(self)  # which shares the buffers
        other.num_params, other._head = head.num_params, (head,)
        return other

    @property
    def head(self) -> GaussianMixture:
        """The head whose conditionals are corrected."""
        return self._head[0]

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> MixtureConditional:
        which = slice(None) if variables is None else variables - self.first
        own = (self.log_narrow[which], self.log_wide[which], self.logit_share[which])
        return widened(self._head[0](params), *own)

    def moved(self, params: Tensor, shift: Tensor, scale: Tensor, variables: Tensor | int | None = None) -> Tensor:
        return self._head[0].moved(params, shift, scale, variables)

    def fit(self, conditional: MixtureConditional, x: Tensor, asked: Tensor) -> None:
        """Fit the factors to values x (B, N), where `asked` (B, N), by maximum likelihood."""
        number = x.shape[1]
        which = torch.arange(number, device=x.device).expand_as(x)[asked]
        base = MixtureConditional(conditional.log_weights[asked], conditional.means[asked], conditional.log_stds[asked])
        start = torch.tensor([[0.0], [1.0], [-1.0]], device=x.device).repeat(1, number)
        with torch.inference_mode(False), torch.enable_grad():
            base = MixtureConditional(*(part.clone() for part in (base.log_weights, base.means, base.log_stds)))
            values, own = x[asked].clone(), start.requires_grad_()
            optimizer = torch.optim.LBFGS([own], max_iter=60, line_search_fn="strong_wolfe")

            def closure() -> Tensor:
                optimizer.zero_grad()
                loss = -widened(base, *own[:, which]).log_prob(values).mean() + 1e-3 * own.square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)
        for name, fitted in zip(("log_narrow", "log_wide", "logit_share"), own.detach(), strict=True):
            getattr(self, name).copy_(fitted)


def widened(base: MixtureConditional, log_narrow: Tensor, log_wide: Tensor, logit_share: Tensor) -> MixtureConditional:
    """The mixture (..., K) with two components (..., 2K) in place of each one; the factors are (...)."""
    weights = torch.stack([-nn.functional.softplus(logit_share), -nn.functional.softplus(-logit_share)], -1)
    factors = torch.stack([log_narrow, log_wide], -1)
    shape = (*base.means.shape, 2)
    parts = (
        base.log_weights[..., None] + weights[..., None, :],
        base.means[..., None].expand(shape),
        base.log_stds[..., None] + factors[..., None, :],
    )
    return MixtureConditional(*(part.expand(shape).flatten(-2) for part in parts))
