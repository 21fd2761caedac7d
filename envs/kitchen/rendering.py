"""The choice of an OpenGL backend for drawing without a screen, before any OpenGL library is loaded.

OpenGL's Python binding selects one platform at its first import. After a backend has failed, the same process cannot
use another; each backend is therefore tried in a process of its own.
"""

import functools
import os
import subprocess
import sys

from mac_policy.tasks import RendererMissing

BACKENDS = ("egl", "osmesa")
_PROBE = "from mujoco.{0} import GLContext; context = GLContext(8, 8); context.make_current(); context.free()"


def loading_failed(error: Exception) -> Exception:
    """The error to raise when the simulator cannot be imported; with MUJOCO_GL set, its backend is the cause."""
    chosen = os.environ.get("MUJOCO_GL")
    if not chosen:
        return error
    return RendererMissing(
        f"the simulator cannot be loaded with MUJOCO_GL={chosen} ({error}): unset MUJOCO_GL, or install its library "
        "(Debian: libosmesa6 for osmesa, libegl1 for egl)"
    )


def prepare_rendering(render_mode: str) -> None:
    """Set MUJOCO_GL for drawing to arrays, unless the user did; RendererMissing if no backend works."""
    if render_mode == "human" or os.environ.get("MUJOCO_GL"):
        return
    backend = first_working_backend()
    if backend is None:
        raise RendererMissing(
            "rendering needs OpenGL without a screen, and neither egl nor osmesa works here: install the Debian "
            "package libosmesa6 (apt-get install libosmesa6), or leave render_mode=None"
        )
    os.environ["MUJOCO_GL"] = backend


@functools.cache
def first_working_backend() -> str | None:
    """The first of egl and osmesa that can make a context on this machine, None if neither can."""
    return next((backend for backend in BACKENDS if _works(backend)), None)


def _works(backend: str) -> bool:
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    probe = [sys.executable, "-c", _PROBE.format(backend)]
    try:
        return subprocess.run(probe, env=environment, capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False
