"""Errors of predicted actions by joint and by time ahead, in the units of the robot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyhands.lerobot_format.dataset.features import Feature

ABSOLUTE, SQUARED = "mean_absolute_error", "root_mean_square_error"


@dataclass(frozen=True)
class ActionErrors:
    """Sums over samples, for every step ahead and joint."""

    counts: np.ndarray
    """Samples (steps,) with a recorded action at each step ahead."""
    absolute: np.ndarray
    """Absolute errors (steps, joints)."""
    squared: np.ndarray
    """Squared errors (steps, joints)."""

    @property
    def num_samples(self) -> int:
        """Samples; the action of its own frame is recorded for each."""
        return int(self.counts[0])

    def overall(self) -> dict[str, float]:
        """The errors over all steps and joints."""
        return self._means(self.absolute.sum(), self.squared.sum(), self._num_values)

    def of_joint(self, joint: int) -> dict[str, float]:
        """The errors of a joint over all steps."""
        return self._means(
            self.absolute[:, joint].sum(), self.squared[:, joint].sum(), self.counts.sum()
        )

    def at_step(self, step: int) -> dict[str, float]:
        """The errors of all joints some steps ahead."""
        count = self.counts[step] * self.absolute.shape[1]
        return self._means(self.absolute[step].sum(), self.squared[step].sum(), count)

    def of_joint_at_step(self, joint: int, step: int) -> dict[str, float]:
        """The errors of a joint some steps ahead."""
        return self._means(self.absolute[step, joint], self.squared[step, joint], self.counts[step])

    @property
    def _num_values(self) -> int:
        return int(self.counts.sum() * self.absolute.shape[1])

    @staticmethod
    def _means(absolute: float, squared: float, count: int) -> dict[str, float]:
        return {ABSOLUTE: float(absolute / count), SQUARED: float((squared / count) ** 0.5)}


def action_errors(predicted: np.ndarray, recorded: np.ndarray, is_pad: np.ndarray) -> ActionErrors:
    """Errors of chunks (samples, steps, joints); padded steps (samples, steps) do not count."""
    is_real = ~is_pad
    distance = np.where(is_real[..., None], predicted.astype(float) - recorded.astype(float), 0.0)
    return ActionErrors(
        is_real.sum(axis=0), np.abs(distance).sum(axis=0), np.square(distance).sum(axis=0)
    )


def added(parts: Sequence[ActionErrors]) -> ActionErrors:
    """The sum of at least one, in their order; steps that no recording reaches are dropped."""
    counts, absolute, squared = (
        np.sum([getattr(part, name) for part in parts], axis=0)
        for name in ("counts", "absolute", "squared")
    )
    reached = counts > 0
    return ActionErrors(counts[reached], absolute[reached], squared[reached])


def joint_names(action: Feature) -> list[str]:
    """A name for every value of an action: the dataset's, or its place."""
    number, declared = action.shape[0], action.names
    if isinstance(declared, dict):
        # LeRobot writes {"motors": [...]} or {name: place}.
        lists = [value for value in declared.values() if isinstance(value, list | tuple)]
        declared = lists[0] if lists else list(declared)
    if isinstance(declared, list | tuple) and len(declared) == number:
        return [str(name) for name in declared]
    return [f"action {place}" for place in range(number)]


def errors_document(errors: ActionErrors, joints: Sequence[str], fps: float) -> dict[str, Any]:
    """The errors for programs; `time_ahead` starts at the frame of the observation."""
    return {
        "num_samples": errors.num_samples,
        **errors.overall(),
        "joints": [{"name": name} | errors.of_joint(place) for place, name in enumerate(joints)],
        "time_ahead": [
            {
                "step": step,
                "seconds": step / fps,
                "num_samples": int(count),
                **errors.at_step(step),
                "joints": {
                    name: errors.of_joint_at_step(place, step) for place, name in enumerate(joints)
                },
            }
            for step, count in enumerate(errors.counts)
        ],
    }
