"""Step speed in several modes, compared with LeRobot's."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from manyhands.config.launch.launcher import Launcher
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.observe.console import OnProgress
from manyhands.parallel.world import World, joined_world
from manyhands.training.step.kernel_choice import kernel_settings
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.loading import Loaded, fill_caches, with_loader
from manyhands_bench.step.phase_cost import phase_cost
from manyhands_bench.step.reference import reference_rows
from manyhands_bench.step.roofline import (
    Roofline,
    demand_of,
    flops_per_update,
    peak_of,
    roofline_of,
)
from manyhands_bench.step.row import Row, measured_row, modes_of, rated
from manyhands_bench.step.subject import Subject, subject_of

MAIN_FIELDS = ("mode", "median_ms", "samples_per_s", "peak_memory_gib", "setup_s", "mfu")
"""Fields of the main row at the top level of the JSON."""


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """All rows, and the setup of the measurement."""

    rows: list[Row]
    """The main one first."""
    reference: list[Row]
    """Rows of LeRobot, the same precision first; empty if not measured."""
    device: str
    precision: str
    batch_size: int
    flops_per_update: int
    peak_tflops: float
    roofline: Roofline
    with_loader: Loaded | None
    phase_cost: float | None = None
    """The fraction of a step that timing its phases takes; None if not measured."""

    @property
    def reference_median_ms(self) -> float | None:
        """LeRobot's step time in the same precision."""
        return self.reference[0].median_ms if self.reference else None

    def as_json(self) -> dict[str, Any]:
        """The result as JSON."""
        main = asdict(self.rows[0])
        return {
            **{name: main[name] for name in MAIN_FIELDS},
            "reference_median_ms": self.reference_median_ms,
            "with_loader": None if self.with_loader is None else asdict(self.with_loader),
            "phase_cost": self.phase_cost,
            "device": self.device,
            "precision": self.precision,
            "batch_size": self.batch_size,
            "flops_per_update": self.flops_per_update,
            "peak_tflops": self.peak_tflops,
            "roofline": asdict(self.roofline),
            "rows": [asdict(row) for row in (*self.rows, *self.reference)],
        }


def bench_step(
    bench: BenchStepConfig, config: TrainConfig, launcher: Launcher, on_progress: OnProgress
) -> StepResult:
    """Time steps of one process on one device."""
    refuse_other_starts(config, launcher)
    with kernel_settings(config.cudnn_deterministic), joined_world(config) as world:
        modes = modes_of(bench, config, world.device)
        subject = subject_of(bench, config, world)
        if bench.with_loader:
            assert subject.data is not None
            fill_caches(subject.data)
        result = measured(modes, subject, bench, world, on_progress)
        if not bench.phase_cost:
            return result
        world.free_memory()
        return replace(result, phase_cost=phase_cost(subject, bench, world))


def measured(
    modes: list[str],
    subject: Subject,
    bench: BenchStepConfig,
    world: World,
    on_progress: OnProgress,
) -> StepResult:
    """Measure LeRobot first, since its environment may be incomplete, then every mode."""
    total = 2 + len(modes)
    on_progress(0, total)
    against = bench.against
    reference = [] if against is None else reference_rows(against, subject, bench, world)
    on_progress(1, total)
    flops = flops_per_update(subject, world)
    limits = peak_of(world.device, world.precision, subject.config.dtype)
    roofline, peak = roofline_of(demand_of(subject, world), limits), limits.flops_per_s
    rows, loaded = [], None
    for number, mode in enumerate(modes):
        on_progress(2 + number, total)
        row, learner = measured_row(mode, subject, bench, world)
        if bench.with_loader and number == 0:
            loaded = with_loader(learner, row.samples_per_s, subject, bench, world)
        rows.append(rated(row, flops, peak))
        # Weights and graphs of one mode must not use memory in the next.
        del learner
    on_progress(total, total)
    return StepResult(
        rows=rows,
        reference=[
            rated(row, flops, peak if row.precision == world.precision else None)
            for row in reference
        ],
        device=device_name(world),
        precision=world.precision,
        batch_size=subject.split.samples_per_step,
        flops_per_update=flops,
        peak_tflops=peak / 1e12,
        roofline=roofline,
        with_loader=loaded,
    )


def device_name(world: World) -> str:
    """The name of the GPU, or cpu."""
    placement = world.placements[0]
    return placement.device if world.device.type == "cpu" else placement.name


def refuse_other_starts(config: TrainConfig, launcher: Launcher) -> None:
    """Reject more than one process or device, and resumed runs."""
    if launcher.started_ranks:
        raise EnvironmentFault(
            "bench step measures one process. Run it without torchrun, accelerate launch or srun"
        )
    faults = [*_other_starts(config)]
    if faults:
        raise ConfigError(faults)


def _other_starts(config: TrainConfig) -> Iterator[str]:
    remedy = "is not supported by bench step, which measures one process on one device"
    if (config.launch.num_processes or 1) > 1:
        yield f"--launch.num_processes={config.launch.num_processes} {remedy}; see bench scaling"
    if config.launch.num_machines > 1:
        yield f"--launch.num_machines={config.launch.num_machines} {remedy}"
    if config.parallelism.gpus_per_process > 1:
        yield f"--parallelism.gpus_per_process={config.parallelism.gpus_per_process} {remedy}"
    if config.resume is not False:
        yield f"--resume={config.resume} is not supported by bench step; use the flags of a new run"
