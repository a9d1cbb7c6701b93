"""How many processor cores this process may use."""

import os
import sys


def num_cores() -> int:
    """Cores the scheduler allows, which may be fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
