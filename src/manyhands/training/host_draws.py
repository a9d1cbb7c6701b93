"""Random numbers of Python's and NumPy's global generators, as a function of the step.

Policies of this package draw from neither; those of others may. Seeding both takes about 50
microseconds, which only runs of such policies spend.
"""

import random

import numpy as np

from manyhands.policies.networks import OWN
from manyhands.rng import derive_seed
from manyhands.training.learner import Learner
from manyhands.training.update import Measures
from manyhands.types import Batch


class HostSeededLearner(Learner):
    """A learner of a policy that may draw from Python's and NumPy's generators."""

    def update(self, batch: Batch, step: int) -> Measures:
        """Make one optimizer step with draws that depend on the step alone, on every rank."""
        seed_host(derive_seed(self.config.seed, "host", step, self.share.rank))
        return super().update(batch, step)


def learner_type(policy_type: str) -> type[Learner]:
    """The learner for a type of policy."""
    return Learner if policy_type in OWN else HostSeededLearner


def seed_host(seed: int) -> None:
    """Seed the global generators of Python and NumPy."""
    random.seed(seed)
    # A single 32-bit number is the fastest of the seeds that NumPy takes.
    np.random.seed(seed % 2**32)
