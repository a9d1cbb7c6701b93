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
MAX_ROLLBACKS = 3  # How often --on_nonfinite=rollback returns to the same checkpoint.
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
        action: str,
        world: World,
        inspector: SampleInspector,
        run_log: RunLog | NullRunLog,
    ) -> None:
        self._action = action
        self._world = world
        self._inspector = inspector
        self._run_log = run_log
        self._pending: list[PendingStep] = []
        self._num_skipped = 0
        self._num_in_a_row = 0
        self._num_rollbacks: Counter[int] = Counter()

    def note(self, before: Position, result: StepMetrics) -> None:
        """Add a step to those to check."""
        self._pending.append(PendingStep(before, result))

    def must_roll_back(self, learner: Learner, saving: bool) -> bool:
        """Collective. Check the steps so far, and the weights before they are saved."""
        # Returns whether to roll back to the last checkpoint; raises Diverged if training must end.
        reasons = [self._explain(each) for each in self._nonfinite_steps()]
        cannot_skip = self._num_in_a_row >= MAX_IN_A_ROW
        if saving and not reasons and not self._is_finite(learner):
            reasons = ["weights are NaN or Inf, although all gradients were finite"]
            cannot_skip = True
        if reasons and (self._action == "stop" or (self._action == "skip" and cannot_skip)):
            raise Diverged(f"training diverged: {reasons[-1]}\n{ADVICE}")
        return bool(reasons) and self._action == "rollback"

    def record_rollback(self, step: int) -> None:
        """Count a rollback to a checkpoint; ends the run after too many."""
        self._num_rollbacks[step] += 1
        if self._num_rollbacks[step] > MAX_ROLLBACKS:
            raise Diverged(
                f"training diverged: still NaN or Inf after {MAX_ROLLBACKS} rollbacks to step "
                f"{step}\n{ADVICE}"
            )
        self._num_skipped = self._num_in_a_row = 0

    def lap(self) -> dict[str, float]:
        """The number of skipped steps of the lap; starts the next lap."""
        num_skipped, self._num_skipped = self._num_skipped, 0
        return {"num_skipped": num_skipped}

    def _nonfinite_steps(self) -> list[PendingStep]:
        """Collective. Steps since the last check that are non-finite on any rank."""
        pending, self._pending = self._pending, []
        if not pending:
            return []
        flags = torch.stack([each.result.is_bad for each in pending])
        is_bad = [num_ranks > 0 for num_ranks in self._world.sum(flags.float()).tolist()]
        for bad in is_bad:
            self._num_in_a_row = self._num_in_a_row + 1 if bad else 0
        self._num_skipped += sum(is_bad)
        return [each for each, bad in zip(pending, is_bad, strict=True) if bad]

    def _is_finite(self, learner: Learner) -> bool:
        """Collective."""
        largest = self._world.sum(learner.max_abs_weight().to(self._world.device))
        return math.isfinite(largest.item())

    def _explain(self, bad: PendingStep) -> str:
        """Collective. Log and record a non-finite step with its samples."""
        loss = sum(self._world.gather(bad.result.terms["loss"].item()))
        norm = bad.result.grad_norm.item()
        evidence = self._inspector.inspect(bad.before.samples)
        step = bad.before.step + 1
        values = [each._asdict().items() for each in evidence.values]
        samples = [{name: value for name, value in each if value is not None} for each in values]
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
