"""The energy of one value of one variable, given what the set network says about it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from mac_policy.core.heads.head import at_least_float32
from mac_policy.core.networks.mlp import ResidualBlock
from mac_policy.core.networks.network import small_output


class EnergyNetwork(nn.Module):
    """E(x_i; latent, which variable, proposal), a residual network shared by all variables.

    What does not depend on x_i is read once, however many values of x_i follow. The result is
    softplus(.) clipped at ``clip``; before training it is almost constant (a third of the clip), which makes
    p almost q.
    """

    def __init__(self, num_variables: int, num_inputs: int, hidden: int, num_blocks: int, clip: float) -> None:
        super().__init__()
        self.variable = nn.Embedding(num_variables, hidden)
        self.condition = nn.Linear(num_inputs, hidden)
        self.value = nn.Linear(1, hidden, bias=False)
        self.blocks = nn.Sequential(*(ResidualBlock(hidden) for _ in range(num_blocks)), nn.ReLU())
        self.output = nn.Linear(hidden, 1)
        self.clip = clip
        small_output(self.output)
        # Only differences of energies count. Starting at 0 would leave no room below: softplus is flat there.
        nn.init.constant_(self.output.bias, clip / 3)

    def forward(self, inputs: Tensor, variables: Tensor) -> Callable[[Tensor], Tensor]:
        """``(..., I)`` inputs and ``(...)`` variable indices to the function (..., S) -> (..., S)."""
        start = (self.condition(inputs) + self.variable(variables))[..., None, :]

        def energy(x: Tensor) -> Tensor:
            hidden = start + self.value(x[..., None].to(inputs.dtype))
            raw = self.output(self.blocks(hidden))[..., 0]
            return at_least_float32(nn.functional.softplus(raw).clamp(max=self.clip))

        return energy
