"""A short measurement of steps on this machine, for the time estimates of `manyhands plan`."""

from collections.abc import Sequence
from dataclasses import replace

from manyhands.config.commands.plan import PlanConfig
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.train import LaunchConfig, TrainConfig
from manyhands.observe.console import OnProgress
from manyhands.parallel.world import joined_world
from manyhands.plan.run_time import StepBenchmark
from manyhands.training.step.kernel_choice import kernel_settings
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.row import EAGER, measured_row
from manyhands_bench.step.speed import device_name
from manyhands_bench.step.subject import subject_of

NUM_STEPS, WARM_UP = 10, 3
GRAPH = "graph"


def probe_steps(
    plan: PlanConfig, config: TrainConfig, batch_sizes: Sequence[int], on_progress: OnProgress
) -> StepBenchmark:
    """Time steps of one process with each batch size."""
    bench = BenchStepConfig(
        num_steps=NUM_STEPS,
        warm_up=WARM_UP,
        cameras=plan.cameras,
        image_size=plan.image_size,
        state_dim=plan.state_dim,
        action_dim=plan.action_dim,
    )
    alone = replace(
        config,
        global_batch_size=None,
        launch=LaunchConfig(),
        parallelism=ParallelismConfig(),
    )
    seconds, source = dict[int, float](), ""
    for number, batch_size in enumerate(batch_sizes):
        on_progress(number, len(batch_sizes))
        tried = replace(alone, batch_size=batch_size)
        with kernel_settings(config.cudnn_deterministic), joined_world(tried) as world:
            mode = EAGER if world.device.type == "cpu" else GRAPH
            row, learner = measured_row(mode, subject_of(bench, tried, world), bench, world)
            learner.close()
            seconds[batch_size] = row.median_ms / 1e3
            source = f"{device_name(world)}, step mode {mode}, median of {NUM_STEPS} steps here"
    on_progress(len(batch_sizes), len(batch_sizes))
    return StepBenchmark(seconds, source)
