"""Open-loop errors during training: predicted against recorded actions of held-out episodes.

Batches, noise and the order of sums are those of `manyhands eval --dataset.root`: the same numbers
at any number of ranks, without any effect on training.
"""

from collections.abc import Sequence

import numpy as np

from manyhands.config.sections.open_loop import OpenLoopConfig
from manyhands.config.train import TrainConfig
from manyhands.data.dataset import Dataset
from manyhands.data.mixture import Mixture
from manyhands.errors import ConfigError
from manyhands.evaluation.action_errors import ABSOLUTE, SQUARED, ActionErrors, joint_names
from manyhands.evaluation.open_loop import OpenLoop, joined_errors, rank_turns, sample_rows
from manyhands.lerobot_format import names
from manyhands.parallel.world import World
from manyhands.policies.policy import Policy
from manyhands.training.periods import StopPoll
from manyhands.training.step.ema import Weights


class HeldOutActions:
    """Recorded actions of held-out episodes, and a policy's errors in predicting them."""

    def __init__(
        self, open_loop: OpenLoop, rows: np.ndarray, joints: Sequence[str], world: World
    ) -> None:
        self._open_loop = open_loop
        self._batches = open_loop.batches(rows)
        self._joints = joints
        self._world = world

    def measure(self, weights: Weights) -> dict[str, float]:
        """Collective. The errors of each set of weights, named by their suffix.

        A stop request returns none.
        """
        found: dict[str, float] = {}
        for ending, in_place in weights.items():
            with in_place():
                errors = self._errors()
            if errors is None:
                return {}
            found |= error_metrics(errors, self._joints, ending)
        if self._world.device.type == "cuda":
            # Predictions need other sizes than training, which may need all of the memory.
            self._world.free_memory()
        return found

    def _errors(self) -> ActionErrors | None:
        own: dict[int, ActionErrors] = {}
        stop_poll = StopPoll(self._world)
        for place in rank_turns(len(self._batches), self._world.rank, self._world.size):
            if stop_poll.after_step():
                return None
            own[place] = self._open_loop.errors(self._batches[place])
        return joined_errors(self._world.gather(own))


def error_metrics(errors: ActionErrors, joints: Sequence[str], ending: str) -> dict[str, float]:
    """The errors of a row of metrics, over all joints and by joint."""
    overall = errors.overall()
    by_joint = {
        f"open_loop_error{ending}/{name}": errors.of_joint(place)[ABSOLUTE]
        for place, name in enumerate(joints)
    }
    total = {
        f"open_loop_error{ending}": overall[ABSOLUTE],
        f"open_loop_rmse{ending}": overall[SQUARED],
    }
    return total | by_joint


def build_held_out_actions(
    config: TrainConfig, held_out: Dataset | Mixture, policy: Policy, world: World
) -> HeldOutActions:
    """The recorded actions that `manyhands eval` would compare with by default."""
    if world.strategy.is_sharded:
        raise ConfigError(
            "--eval.open_loop=true: processes with sharded weights cannot predict. Use manyhands "
            "eval --dataset.root=FOLDER, or do not shard"
        )
    # Flags of mixtures are rejected before.
    assert isinstance(held_out, Dataset)
    limits = [each for each in (OpenLoopConfig().max_samples, config.max_eval_samples) if each > 0]
    rows = sample_rows(held_out, policy.config.num_executed_actions, min(limits))
    joints = joint_names(held_out.features[names.ACTION])
    return HeldOutActions(OpenLoop(policy, held_out, config.seed), rows, joints, world)
