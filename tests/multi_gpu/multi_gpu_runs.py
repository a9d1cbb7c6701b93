"""Runs of `manyhands train` on several devices, each compared with the same run on one."""

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from multi_gpu_cases import DECISIONS, ENDLESS, NUM_STEPS, TOLERANCES, Case
from run_job import END_S, Job, log_of
from run_report import cell

from manyhands.observe.jsonl import read_rows

FULL = """
import os
import torch
from manyhands.policies.act.network import ActNetwork as Network
compute, calls = Network.forward, [0]

def forward(self, batch, draws):
    calls[0] += 1
    if calls[0] > 20 and os.environ.get("RANK") == "1":
        torch.empty(1 << 46, device=batch["action"].device)
    return compute(self, batch, draws)

Network.forward = forward
"""
"""Imported by every Python that finds it: rank 1 asks for more memory than there is."""


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    case: str
    outcome: str
    steps_per_s: float | None = None
    loss_difference: float | None = None
    """The largest one to the same run on one device, relative to the loss."""
    seconds: float | None = None


class Runs:
    """Makes runs on one kind of device, and remembers those on a single one."""

    def __init__(self, folder: Path, dataset: Path, device: str) -> None:
        self.own_flags: dict[str, list[str]] = {}
        """What a policy needs of this machine."""
        self._folder = folder
        self._base = [f"--dataset.root={dataset}", f"--policy.device={device}"]
        self._references: dict[str, Path] = {}

    def result_of(self, case: Case) -> Result:
        """Run a case; raises AssertionError with all output where it is not as it must be."""
        started = time.monotonic()
        run_dir = self._folder / case.name
        details = {"train": self._train, "resumed": self._resume, "killed": self._kill}
        details |= {"stopped": self._stop, "out of memory": self._fill_memory}
        outcome, compared = details[case.kind](case, run_dir)
        difference = None
        if compared:
            difference = largest_difference(run_dir, self.reference(case))
            assert difference <= TOLERANCES[case.mode], (
                f"losses differ by {difference:.2g} of their size, more than "
                f"{TOLERANCES[case.mode]:g}:\n{log_of(run_dir)}"
            )
        rows = list(read_rows(run_dir / "metrics.jsonl"))
        speed = 1 / median(row["step_s"] for row in rows[len(rows) // 2 :])
        return Result(case.name, outcome, speed, difference, time.monotonic() - started)

    def reference(self, case: Case) -> Path:
        """The folder of the same run in one eager process."""
        alone = replace(case, kind="train", mode="eager", strategy="ddp", num_processes=1)
        if case.policy not in self._references:
            run_dir = self._folder / f"reference-{alone.name}"
            self._train(alone, run_dir)
            self._references[case.policy] = run_dir
        return self._references[case.policy]

    def argv(self, case: Case, run_dir: Path, num_steps: int) -> list[str]:
        """A command line."""
        program = [sys.executable, "-m", "manyhands", "train"]
        flags = [*self._base, *case.flags, *self.own_flags.get(case.policy, [])]
        return [*program, *flags, f"--steps={num_steps}", f"--output_dir={run_dir}"]

    def _train(self, case: Case, run_dir: Path) -> tuple[str, bool]:
        if case.mode == "auto":
            return self._decide(case, run_dir)
        job = Job(self.argv(case, run_dir, NUM_STEPS), run_dir, case.deadline_s)
        job.end(0, case.deadline_s)
        return "passed", True

    def _decide(self, case: Case, run_dir: Path) -> tuple[str, bool]:
        """Train until the mode is decided, and some steps more."""
        job = Job(self.argv(case, run_dir, ENDLESS), run_dir, case.deadline_s)
        job.wait_until(lambda: any(each in log_of(run_dir) for each in DECISIONS))
        (decision,) = [line for line in log_of(run_dir).splitlines() if has_decision(line)][:1]
        last = job.last_step()
        job.wait_until(lambda: job.last_step() >= last + NUM_STEPS)
        job.launcher.send_signal(signal.SIGTERM)
        job.end(75, END_S)
        return f"passed: {decision}", True

    def _resume(self, case: Case, run_dir: Path) -> tuple[str, bool]:
        """Stop half way, and continue on a single device."""
        job = Job(self.argv(case, run_dir, NUM_STEPS // 2), run_dir, case.deadline_s)
        job.end(0, case.deadline_s)
        program = [sys.executable, "-m", "manyhands", "train", f"--resume={run_dir}"]
        flags = ["--launch.num_processes=1", f"--steps={NUM_STEPS}"]
        Job([*program, *flags], run_dir, case.deadline_s).end(0, case.deadline_s)
        return "passed", True

    def _kill(self, case: Case, run_dir: Path) -> tuple[str, bool]:
        job = Job(self.argv(case, run_dir, ENDLESS), run_dir, case.deadline_s)
        job.wait_until(lambda: job.last_step() >= NUM_STEPS)
        job.rank(1).kill()
        job.end(128 + signal.SIGKILL, END_S, "rank 1 was killed by SIGKILL")
        return "passed", False

    def _stop(self, case: Case, run_dir: Path) -> tuple[str, bool]:
        job = Job(self.argv(case, run_dir, ENDLESS), run_dir, case.deadline_s)
        job.wait_until(lambda: job.last_step() >= NUM_STEPS)
        job.rank(1).send_signal(signal.SIGTERM)
        job.end(75, END_S)
        return "passed", True

    def _fill_memory(self, case: Case, run_dir: Path) -> tuple[str, bool]:
        plugin = run_dir.with_name(f"{run_dir.name}-plugin")
        plugin.mkdir()
        (plugin / "full_memory.py").write_text(FULL)
        (plugin / "sitecustomize.py").write_text(CUSTOMIZE)
        job = Job(self.argv(case, run_dir, ENDLESS), run_dir, case.deadline_s, plugin)
        job.end(2, case.deadline_s, "out of memory in a training step")
        printed = job.printed()
        assert printed.count("out of memory in a training step") == 1, printed
        assert "rank 1: " in printed and "Traceback" not in printed, printed
        return "passed", False


CUSTOMIZE = """
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "manyhands.policies.act.network":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            sys.modules[name] = module
            import full_memory

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
"""Python imports it as it starts: the network of ACT is changed once it is imported."""


def has_decision(line: str) -> bool:
    """Whether a line of the log says how steps run."""
    return any(each in line for each in DECISIONS)


def largest_difference(run_dir: Path, reference: Path) -> float:
    """Between the losses of two runs, relative to those of the second."""
    found, expected = (
        {row["step"]: row["loss"] for row in read_rows(each / "metrics.jsonl")}
        for each in (run_dir, reference)
    )
    assert expected.keys() <= found.keys(), f"steps {sorted(found)}, not {sorted(expected)}"
    return max(abs(found[step] / loss - 1) for step, loss in expected.items())


def table_of(results: Sequence[Result]) -> str:
    """The results for people."""
    lines = [f"{'case':44}{'steps/s':>9}{'loss diff':>11}{'seconds':>9}  outcome"]
    lines += [
        f"{each.case:44}{cell(each.steps_per_s, '.1f'):>9}{cell(each.loss_difference, '.1e'):>11}"
        f"{cell(each.seconds, '.0f'):>9}  {each.outcome}"
        for each in results
    ]
    return "\n".join(lines)
