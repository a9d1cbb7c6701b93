"""Why a run is slow or does not learn, after the fact."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from manyhands.doctor.check import Check, checks_json
from manyhands.errors import UserError
from manyhands.observe.diagnosis.advice import KINDS, Diagnosis
from manyhands.observe.diagnosis.history import History, values
from manyhands.observe.diagnosis.loss_health import MIN_HELD_OUT, MIN_LOSSES
from manyhands.observe.diagnosis.run_verdict import (
    Verdict,
    read_facts,
    read_verdict,
    rows_to_judge,
)

PHASES = {
    "data_s": "waiting for data",
    "copy_s": "copy to the GPU (beside the step)",
    "forward_s": "forward",
    "backward_s": "backward",
    "communication_s": "communication",
    "optimizer_s": "optimizer",
    "logging_s": "logging",
    "checkpoint_s": "checkpoint",
}

NEEDS = {
    "decode_bound": "data_s",
    "launch_bound": "gpu_utilization",
    "communication_bound": "communication_s",
    "straggler": "communication_s",
    "overfitting": "held_out_loss",
}
"""Measures without which a kind of problem cannot be found; those of the loss need the loss."""
MIN_MEASURED = {
    "lr_too_high": MIN_LOSSES,
    "loss_oscillating": MIN_LOSSES,
    "overfitting": MIN_HELD_OUT,
}


@dataclass(frozen=True)
class RunExamination:
    """The verdict on a run, and where its time goes."""

    run_dir: Path
    verdict: Verdict
    step_s: float | None
    phases: dict[str, float]
    """Seconds per step by phase."""
    num_measured: Counter[str]
    """Rows that have each measure."""

    @property
    def checks(self) -> list[Check]:
        """A check for every kind of problem."""
        return [self._check(kind) for kind in KINDS]

    def _check(self, kind: str) -> Check:
        needed = NEEDS.get(kind, "loss")
        if not self.verdict.lines or self.num_measured[needed] < MIN_MEASURED.get(kind, 1):
            return Check(KINDS[kind], "skipped", "not measured, or in too few rows")
        return check_of(kind, self.verdict.diagnoses)

    def as_json(self) -> dict[str, Any]:
        """The examination as values for a JSON file."""
        times = {"step_s": self.step_s, "phases": self.phases}
        found = {"root": str(self.run_dir), "verdict": self.verdict.lines}
        return found | checks_json(self.checks) | self.verdict.facts | times


def examine_run(run_dir: Path) -> RunExamination:
    """Diagnose a run from its files."""
    rows = rows_to_judge(run_dir / "metrics.jsonl")
    if not rows:
        raise UserError(
            f"{run_dir} has no metrics.jsonl with rows. Give the run directory of a training run"
        )
    facts = read_facts(run_dir)
    history = History(facts, rows, [])
    phases = {name: history.mean(name) for name in PHASES}
    known = {name: seconds for name, seconds in phases.items() if seconds is not None}
    num_measured = Counter(name for row in rows for name in row if values(name, [row]))
    step_s, verdict = history.typical("step_s"), read_verdict(run_dir, facts)
    return RunExamination(run_dir, verdict, step_s, known, num_measured)


def check_of(kind: str, diagnoses: list[Diagnosis]) -> Check:
    """The check of one kind of problem."""
    found = [each for each in diagnoses if each.kind == kind]
    if not found:
        return Check(KINDS[kind], "ok", "")
    texts = "; ".join(each.text for each in found)
    return Check(KINDS[kind], "warn", texts, "; ".join(f"{e.remedy} ({e.gain})" for e in found))


def phases_table(examination: RunExamination) -> Table:
    """Where the time of a step goes."""
    table = Table(title="time per step", title_justify="left", box=SIMPLE_HEAD)
    for name in ("phase", "ms", "share"):
        table.add_column(name, justify="left" if name == "phase" else "right")
    whole = examination.step_s or 0.0
    for name, seconds in examination.phases.items():
        share = f"{seconds / whole:.0%}" if whole else ""
        table.add_row(PHASES[name], f"{seconds * 1e3:.3g}", share)
    table.add_row("step", f"{whole * 1e3:.3g}", "")
    return table
