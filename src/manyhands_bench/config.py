"""Flags of the benchmarks; all other flags are those of training."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.commands.synthetic_data import SyntheticDataConfig
from manyhands.config.paths.output import json_faults
from manyhands.config.sections.execution import STEP_MODES

KINDS = ("auto", "measured", "modelled")


@dataclass(frozen=True, kw_only=True)
class BenchLoaderConfig:
    """Measurement."""

    seconds: float = 8.0
    """Seconds to measure each way of loading."""
    epochs: int = 0
    """Epochs to read to check whether memory grows; 0: none."""
    against: Path | None = None
    """Python of an environment with LeRobot; its loader is measured in the same run."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        rules = [
            (not 0 < self.seconds < 1e6, f"--seconds={self.seconds} must be above 0"),
            (self.epochs < 0, f"--epochs={self.epochs} must be at least 0"),
            (
                self.against is not None and not self.against.is_file(),
                f"--against={self.against} is not a Python executable",
            ),
        ]
        wrong = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*wrong, *json_faults(self.json)]


@dataclass(frozen=True, kw_only=True)
class BenchScalingConfig:
    """Measurement."""

    processes: list[int] | None = None
    """Numbers of processes; null: powers of two up to the number of GPUs, at least up to 8."""
    kind: str = "auto"
    """measured rejects what this machine cannot host, auto models it, modelled models all but 1."""
    steps: int = 30
    """Timed steps; the median is reported."""
    warm_up: int = 5
    """Warm-up steps."""
    threads: int | None = None
    """Compute threads per process; null: cores divided by the largest measured count."""
    link_gbps: float | None = None
    """Modelled rows: Gbit/s from a process to its neighbor; null: a typical link."""
    link_latency_us: float | None = None
    """Modelled rows: latency of a message in microseconds; null: a typical link."""
    overlap: float | None = None
    """Modelled rows: fraction of communication that overlaps with backward; null derives it."""
    json: Path | None = None
    """JSON file for the rows, as a list."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured or modelled with."""
        counts = self.processes
        is_odd = counts is not None and (
            not counts or min(counts) < 1 or len(set(counts)) < len(counts)
        )
        rules = [
            (is_odd, f"--processes={counts} must be distinct integers from 1"),
            (self.kind not in KINDS, f"--kind={self.kind} is not one of {', '.join(KINDS)}"),
            (self.steps < 1, f"--steps={self.steps} must be at least 1"),
            (self.warm_up < 1, f"--warm_up={self.warm_up} must be at least 1"),
            (
                self.threads is not None and self.threads < 1,
                f"--threads={self.threads} must be at least 1",
            ),
            (
                self.link_gbps is not None and not 0 < self.link_gbps <= math.inf,
                f"--link_gbps={self.link_gbps} must be above 0",
            ),
            (
                self.link_latency_us is not None and not 0 <= self.link_latency_us < math.inf,
                f"--link_latency_us={self.link_latency_us} must be at least 0",
            ),
            (
                self.overlap is not None and not 0 <= self.overlap <= 1,
                f"--overlap={self.overlap} must be at least 0 and at most 1",
            ),
        ]
        wrong = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*wrong, *json_faults(self.json)]


POLICIES = ("act", "diffusion")
STRATEGIES = ("single", "ddp", "fsdp")
CASES = tuple(f"{policy}-{strategy}" for policy in POLICIES for strategy in STRATEGIES)
"""Runs that can be killed: every policy in every strategy."""


@dataclass(frozen=True, kw_only=True)
class BenchResumeConfig:
    """Measurement."""

    kills: int = 12
    """Number of kill -9, over all cases; 0: none."""
    cases: list[str] | None = None
    """Runs to kill, as [act-ddp]; null: act and diffusion with every strategy."""
    seed: int = 0
    """Seed that chooses the processes to kill and the moments."""
    saves: int = 9
    """Saves of 500 MB to time, asynchronous and synchronous each; 0: none."""
    folder: Path | None = None
    """New folder for all runs; null: a temporary one, removed unless a run fails."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        strange = [name for name in self.cases or () if name not in CASES]
        rules = [
            (self.kills < 0, f"--kills={self.kills} must be at least 0"),
            (self.saves < 0, f"--saves={self.saves} must be at least 0"),
            (self.cases == [], "--cases=[] leaves nothing to kill. Remove it, or set --kills=0"),
            (
                bool(strange),
                f"--cases={self.cases}: {strange[:1]} is not one of {', '.join(CASES)}",
            ),
            (
                self.folder is not None and self.folder.exists(),
                f"--folder={self.folder} already exists. Choose a new folder",
            ),
        ]
        wrong = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*wrong, *json_faults(self.json)]


@dataclass(frozen=True, kw_only=True)
class BenchStepConfig(SyntheticDataConfig):
    """Measurement."""

    num_steps: int = 60
    """Timed steps; the median is reported."""
    warm_up: int = 10
    """Warm-up steps."""
    compare: list[str] | None = None
    """Step modes to measure in one run, as [eager,graph,compile]; null: that of --step.mode."""
    with_loader: bool = False
    """Also train from the real loader and report the remaining fraction of the speed."""
    phase_cost: bool = False
    """Also measure what timing the phases of steps costs."""
    against: Path | None = None
    """Python of an environment with LeRobot; its steps are measured in the same run."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        modes = self.compare
        strange = [mode for mode in modes or () if mode not in STEP_MODES]
        counts = {"num_steps": self.num_steps, "warm_up": self.warm_up}
        rules = [
            *(
                (value < 1, f"--{name}={value} must be at least 1")
                for name, value in counts.items()
            ),
            (modes == [], "--compare=[] leaves nothing to measure. Remove it"),
            (
                len(set(modes or ())) < len(modes or ()),
                f"--compare={modes} must be distinct modes",
            ),
            (
                bool(strange),
                f"--compare={modes}: {strange[:1]} is not one of {', '.join(STEP_MODES)}",
            ),
            (
                self.against is not None and not self.against.is_file(),
                f"--against={self.against} is not a Python executable",
            ),
        ]
        wrong = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*super().faults(), *wrong, *json_faults(self.json)]


@dataclass(frozen=True, kw_only=True)
class BenchInferenceConfig(SyntheticDataConfig):
    """Measurement."""

    batch_sizes: list[int] = field(default_factory=lambda: [1])
    """Numbers of observations to predict for at once."""
    num_chunks: int = 50
    """Timed predictions of an action chunk; the median is reported."""
    warm_up: int = 5
    """Predictions before them."""
    against: Path | None = None
    """Python of an environment with LeRobot; its policy is measured in the same run."""
    json: Path | None = None
    """JSON file for the results."""

    def faults(self) -> list[str]:
        """Values that nothing can be measured with."""
        sizes = self.batch_sizes
        rules = [
            (not sizes or min(sizes) < 1, f"--batch_sizes={sizes} must be integers from 1"),
            (self.num_chunks < 1, f"--num_chunks={self.num_chunks} must be at least 1"),
            # A prediction is captured when its shapes come for the second time.
            (self.warm_up < 3, f"--warm_up={self.warm_up} must be at least 3"),
            (
                self.against is not None and not self.against.is_file(),
                f"--against={self.against} is not a Python executable",
            ),
        ]
        wrong = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*super().faults(), *wrong, *json_faults(self.json)]
