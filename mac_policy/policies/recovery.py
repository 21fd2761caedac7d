"""Training on states beside the demonstrated ones, with actions that lead back to them.

The demonstrations do not say what to do in states that a cloned policy reaches when it drifts away from them. Where
an action dimension moves an observation dimension (a joint command and its joint), the demonstrations tell how to
return: displace the observation, and correct the action so that the displacement vanishes over the next few steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.correlation import LEAST_OFFSET, correlation, transitions


class Recovery(NamedTuple):
    """P pairs of an action dim and the observation dim that it moves.

    gain (P,): change of the observation per step and unit of action. spread (P,): standard deviation of that change
    over the demonstrations, the unit in which displacements are drawn.
    """

    action_dims: Tensor  # (P,) long
    observation_dims: Tensor  # (P,) long
    gain: Tensor  # (P,)
    spread: Tensor  # (P,)

    @staticmethod
    def fit(
        observations: NDArray[np.float32], actions: NDArray[np.float32], episode_index: NDArray[np.int64]
    ) -> Recovery:
        """From flat demonstrations: observations (S, obs), actions (S, act), the episode of each row (S,)."""
        action, before, after = transitions(observations, actions, episode_index)
        change = after - before
        found = correlation(action, change)  # (act, obs)
        moved = np.abs(found).argmax(1)
        mover = np.abs(found).argmax(0)
        pairs = [(i, j) for i, j in enumerate(moved) if mover[j] == i and abs(found[i, j]) >= LEAST_OFFSET]
        i, j = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
        spread = change.std(0)[j]
        gain = found[i, j] * spread / action.std(0)[i]
        return Recovery(
            torch.from_numpy(i), torch.from_numpy(j), torch.from_numpy(gain).float(), torch.from_numpy(spread).float()
        )

    def displace(self, observations: Tensor, actions: Tensor, noise: Tensor, steps: float) -> tuple[Tensor, Tensor]:
        """(B, history, obs), (B, horizon, act), noise (B, P) in units of `spread` -> both, displaced and corrected.

        The action takes back 1/steps of the remaining displacement at each step of the chunk.
        """
        displacement = noise * self.spread.to(noise)  # (B, P)
        seen = observations.clone()
        seen[..., self.observation_dims] += displacement[:, None]
        left = (1 - 1 / steps) ** torch.arange(actions.shape[1], device=noise.device, dtype=noise.dtype)
        correction = displacement[:, None] * left[:, None] / (self.gain.to(noise) * steps)
        corrected = actions.clone()
        corrected[..., self.action_dims] -= correction
        return seen, corrected
