"""Runs of `manyhands train` on several devices, each compared with the same run on one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil
from multi_gpu_cases import DECISIONS, ENDLESS, NUM_STEPS, TOLERANCES, Case

from manyhands.observe.rows import read_rows

END_S = 60.0
"""How long all processes may take to end once one has failed or was asked to stop."""
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
        job.end(128 + signal.SIGKILL, END_S, "rank 1 was ended by SIGKILL")
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
        job.end(2, case.deadline_s, "does not fit")
        printed = job.printed()
        assert printed.count("does not fit into the memory") == 1, printed
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


class Job:
    """A run in processes of its own, and what all of them printed."""

    def __init__(
        self, argv: Sequence[str], run_dir: Path, deadline_s: float, path: Path | None = None
    ) -> None:
        self.run_dir = run_dir
        self._log = run_dir.with_suffix(".log")
        self._deadline = time.monotonic() + deadline_s
        paths = [str(path) if path else "", *sys.path]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with self._log.open("a") as output:
            self.launcher = psutil.Popen(argv, stdout=output, stderr=output, env=environ)

    def printed(self) -> str:
        """The output of all ranks."""
        return self._log.read_text()

    def last_step(self) -> int:
        """The last step that was logged."""
        file = self.run_dir / "metrics.jsonl"
        rows = list(read_rows(file)) if file.exists() else []
        return rows[-1]["step"] if rows else 0

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something while the run goes on."""
        while not is_so():
            if self.launcher.poll() is not None:
                raise AssertionError(f"it ended early:\n{self.printed()}")
            self._check_deadline(self._deadline)
            time.sleep(0.05)

    def rank(self, number: int) -> psutil.Process:
        """The process of a rank."""
        return next(
            each for each in self.launcher.children() if each.environ().get("RANK") == str(number)
        )

    def end(self, code: int, within_s: float, told: str = "") -> None:
        """Wait until no process is left, with an exit code and a message."""
        deadline, processes = time.monotonic() + within_s, [self.launcher]
        while any(map(is_alive, processes)):
            if is_alive(self.launcher):
                processes = [self.launcher, *self.launcher.children(recursive=True)]
            self._check_deadline(deadline, processes)
            time.sleep(0.05)
        found = self.launcher.wait()
        assert found == code, f"exit code {found}, not {code}:\n{self.printed()}"
        assert told in self.printed(), f"{told!r} was not reported:\n{self.printed()}"

    def _check_deadline(self, deadline: float, processes: Sequence[psutil.Process] = ()) -> None:
        if time.monotonic() < deadline:
            return
        printed = self.printed()
        for process in processes or [self.launcher, *self.launcher.children(recursive=True)]:
            if is_alive(process):
                process.kill()
        raise AssertionError(f"it takes too long:\n{printed}")


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_decision(line: str) -> bool:
    """Whether a line of the log says how steps run."""
    return any(each in line for each in DECISIONS)


def log_of(run_dir: Path) -> str:
    """What a run has logged so far."""
    file = run_dir / "log.txt"
    return file.read_text() if file.exists() else ""


def largest_difference(run_dir: Path, reference: Path) -> float:
    """Between the losses of two runs, relative to those of the second."""
    found, expected = (
        {row["step"]: row["loss"] for row in read_rows(each / "metrics.jsonl")}
        for each in (run_dir, reference)
    )
    assert expected.keys() <= found.keys(), f"steps {sorted(found)}, not {sorted(expected)}"
    return max(abs(found[step] / loss - 1) for step, loss in expected.items())


def machine_facts() -> dict[str, object]:
    """What a report of a fault has to say of the machine."""
    import torch

    facts: dict[str, object] = {"python": sys.version.split()[0], "torch": torch.__version__}
    facts |= {"cuda": torch.version.cuda, "num_cores": os.cpu_count()}
    if torch.cuda.is_available():
        gpus = range(torch.cuda.device_count())
        facts["gpus"] = [torch.cuda.get_device_name(number) for number in gpus]
        facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        facts["driver"] = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv")
        facts["topology"] = output_of("nvidia-smi", "topo", "-m")
    return facts


def output_of(*command: str) -> str | None:
    """What a program prints; None if there is none."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return None


def table_of(results: Sequence[Result]) -> str:
    """The results for people."""

    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    lines = [f"{'case':44}{'steps/s':>9}{'loss diff':>11}{'seconds':>9}  outcome"]
    lines += [
        f"{each.case:44}{cell(each.steps_per_s, '.1f'):>9}{cell(each.loss_difference, '.1e'):>11}"
        f"{cell(each.seconds, '.0f'):>9}  {each.outcome}"
        for each in results
    ]
    return "\n".join(lines)


def document_of(results: Sequence[Result]) -> str:
    """The results and the machine as JSON, to attach to a report."""
    cases = [vars(each) for each in results]
    return json.dumps({"machine": machine_facts(), "cases": cases}, indent=2)
