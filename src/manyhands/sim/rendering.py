"""What to do where an environment cannot render without a display."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from manyhands.errors import EnvironmentFault
from manyhands.launch.environment import mujoco_renderer

RENDERERS = ("egl", "osmesa", "glfw")
REMEDY = (
    "Install EGL (apt-get install libegl1), or OSMesa (apt-get install libosmesa6) and set "
    "MUJOCO_GL=osmesa"
)
FAULTS = (ImportError, AttributeError, OSError, RuntimeError)
"""What simulators raise when they are imported, built or asked for an image."""
LIBRARIES = re.compile(r"\b(lib)?egl|libgl|osmesa|opengl|glfw|gladload|mujoco_gl", re.IGNORECASE)
"""Libraries that render, in the message of an error."""


@contextmanager
def explaining_rendering(what: str) -> Iterator[None]:
    """Name the library to install or the variable to set if an error is one of rendering."""
    try:
        yield
    except FAULTS as error:
        if not LIBRARIES.search(str(error)):
            raise
        reason = str(error).rstrip(".")
        raise EnvironmentFault(f"{what} cannot render images: {reason}. {remedy()}") from error


def remedy() -> str:
    """What to do: a variable with a wrong value makes any library useless."""
    chosen = mujoco_renderer()
    if chosen in ("", *RENDERERS):
        return REMEDY
    return f"Set MUJOCO_GL to {', '.join(RENDERERS[:-1])} or {RENDERERS[-1]}, not {chosen!r}"
