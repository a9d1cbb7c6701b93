"""Detects steps with NaN or Inf, explains them, and handles them per --on_nonfinite.

Such a step changes nothing: the device skips it. The flag stays on the device until several steps
are checked together, so that the host does not synchronize at every step.
"""

import math
from collections import Counter
from typing import NamedTuple

import torch

from manyhands.checkpoint.snapshot import Position
from manyhands.errors import Diverged
from manyhands.observe.run_log import NONFINITE_FILE, NullRunLog, RunLog
from manyhands.parallel.world import World
from manyhands.training.health.nonfinite_samples import SampleInspector, describe
from manyhands.training.step.learner import Learner
from manyhands.training.step.train_step import StepMetrics

MAX_IN_A_ROW = 100  # Consecutive non-finite steps that --on_nonfinite=skip tolerates.
MAX_RETURNS = 3  # How often --on_nonfinite=rollback returns to the same checkpoint.
ADVICE = (
    f"The last checkpoint is intact; {NONFINITE_FILE} in the run directory lists the samples. Fix "
    "their "
    "values, exclude them with --dataset.exclude_episodes, or skip them with --on_nonfinite=skip. "
    "If the data is fine, try a smaller --optimizer.lr"
)


class PendingStep(NamedTuple):
    """A step that was not checked yet."""

    before: Position
    result: StepMetrics


class NonFiniteGuard:
    """Checks steps for NaN and Inf, identically on every rank."""

    def __init__(
        self,
        answer: str,
        world: World,
        investigation: SampleInspector,
        run_log: RunLog | NullRunLog,
    ) -> None:
        self._answer = answer
        self._world = world
        self._investigation = investigation
        self._run_log = run_log
        self._noted: list[PendingStep] = []
        self._num_skipped = 0
        self._num_in_a_row = 0
        self._returns: Counter[int] = Counter()

    def note(self, before: Position, result: StepMetrics) -> None:
        """Add a step to those to check."""
        self._noted.append(PendingStep(before, result))

    def must_roll_back(self, learner: Learner, saving: bool) -> bool:
        """Collective. Check the steps so far, and the weights before they are saved."""
        # Returns whether to roll back to the last checkpoint; raises Diverged if training must end.
        reasons = [self._explained(each) for each in self._bad_ones()]
        is_hopeless = self._num_in_a_row >= MAX_IN_A_ROW
        if saving and not reasons and not self._is_finite(learner):
            reasons, is_hopeless = (
                ["weights are NaN or Inf, although all gradients were finite"],
                True,
            )
        if reasons and (self._answer == "stop" or (self._answer == "skip" and is_hopeless)):
            raise Diverged(f"training diverged: {reasons[-1]}\n{ADVICE}")
        return bool(reasons) and self._answer == "rollback"

    def record_rollback(self, step: int) -> None:
        """Count a rollback to a checkpoint; ends the run after too many."""
        self._returns[step] += 1
        if self._returns[step] > MAX_RETURNS:
            raise Diverged(
                f"training diverged: still NaN or Inf after {MAX_RETURNS} rollbacks to step {step}"
                f"\n{ADVICE}"
            )
        self._num_skipped = self._num_in_a_row = 0

    def lap(self) -> dict[str, float]:
        """The number of skipped steps of the lap; starts the next lap."""
        num_skipped, self._num_skipped = self._num_skipped, 0
        return {"num_skipped": num_skipped}

    def _bad_ones(self) -> list[PendingStep]:
        """Collective. Steps since the last check that are non-finite on any rank."""
        noted, self._noted = self._noted, []
        if not noted:
            return []
        flags = torch.stack([each.result.is_bad for each in noted])
        is_bad = [num_ranks > 0 for num_ranks in self._world.sum(flags.float()).tolist()]
        for bad in is_bad:
            self._num_in_a_row = self._num_in_a_row + 1 if bad else 0
        self._num_skipped += sum(is_bad)
        return [each for each, bad in zip(noted, is_bad, strict=True) if bad]

    def _is_finite(self, learner: Learner) -> bool:
        """Collective."""
        largest = self._world.sum(learner.max_abs_weight().to(self._world.device))
        return math.isfinite(largest.item())

    def _explained(self, bad: PendingStep) -> str:
        """Collective. Log and record a non-finite step with its samples."""
        loss = sum(self._world.gather(bad.result.terms["loss"].item()))
        norm = bad.result.grad_norm.item()
        evidence = self._investigation.of_update(bad.before.samples)
        step = bad.before.step + 1
        culprits = [each._asdict().items() for each in evidence.culprits]
        samples = [{name: value for name, value in each if value is not None} for each in culprits]
        # Where every sample is finite, all rows are of interest.
        rows = {} if samples else {"rows": evidence.rows}
        facts = {"loss": _number(loss), "grad_norm": _number(norm), "samples": samples, **rows}
        self._run_log.record_incident(step, facts | {"position": bad.before.samples})
        message = (
            f"step {step}: NaN or Inf (loss {loss:.4g}, gradient norm {norm:.4g}), weights "
            f"unchanged; {describe(evidence)}"
        )
        self._run_log.log_line(f"WARNING: {message}")
        return message


def _number(value: float) -> float | None:
    """The value, or None where JSON cannot represent it."""
    return value if math.isfinite(value) else None
