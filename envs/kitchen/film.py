"""Fast drawing of the kitchen for films: without shadows and reflections a frame takes a tenth of the time."""

from __future__ import annotations

from typing import Any

import gymnasium
import mujoco
from numpy.typing import NDArray

COSTLY = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION)


class QuickRender(gymnasium.Wrapper[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]):
    """Disables shadows and reflections, which software renderers draw slowly."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._prepared = False

    def render(self) -> Any:
        if not self._prepared:
            self.env.render()  # the first frame makes the drawing context
            scene = self.env.unwrapped.inner.robot_env.mujoco_renderer.viewer.scn  # type: ignore[attr-defined]
            for flag in COSTLY:
                scene.flags[flag] = 0
            self._prepared = True
        return self.env.render()
