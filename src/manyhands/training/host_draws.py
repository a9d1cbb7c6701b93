"""Random numbers of Python's and NumPy's global generators, as a function of the step.

Policies of this package draw from neither; third-party policies may. Seeding both takes about 50
microseconds, which only runs of third-party policies need.
"""

import random

import numpy as np

from manyhands.policies.networks import OWN


def may_draw_on_host(policy_type: str) -> bool:
    """Whether a policy may draw from global generators: only third-party policies do."""
    return policy_type not in OWN


def seed_host(seed: int) -> None:
    """Seed the global generators of Python and NumPy."""
    random.seed(seed)
    # A single 32-bit number is the fastest of the seeds that NumPy takes.
    np.random.seed(seed % 2**32)
