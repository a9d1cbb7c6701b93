"""When Python looks for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_lying() -> Iterator[None]:
    """Look for none: among modules being imported there is little, and it takes a sixth longer."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
