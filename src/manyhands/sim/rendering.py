"""What to do where an environment cannot render without a display."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from manyhands.errors import EnvironmentFault

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
    """Name the library to install if an error is that of one that renders."""
    try:
        yield
    except FAULTS as error:
        if not LIBRARIES.search(str(error)):
            raise
        raise EnvironmentFault(f"{what} cannot render images: {error}. {REMEDY}") from error
