"""The processes of an engine: started if no launcher did, joined, and left in any case."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from manyhands.config.engine import EngineConfig
from manyhands.config.launch.launcher import Launcher
from manyhands.config.train import TrainConfig
from manyhands.errors import Diverged, RankLost, Stopped, UserError
from manyhands.launch.environment import current_launcher
from manyhands.launch.script import script_command
from manyhands.launch.workers import run_workers
from manyhands.parallel.hang_report import report
from manyhands.parallel.world import World, joined_world
from manyhands.stop import StopSignal
from manyhands.training.run_lock import locked_run_dir
from manyhands.training.spawn import (
    machine_addresses,
    needs_workers,
    process_placement,
    refuse_missing_ids,
)
from manyhands.training.step.kernel_choice import kernel_settings


@contextmanager
def joined_session(config: EngineConfig) -> Iterator[World]:
    """Collective. Join all ranks; the process that starts them waits for their end and exits.

    Ranks of a launcher exit with the codes of `manyhands train`; a single process raises.
    """
    run, launcher = config.run, for_device(config.device, current_launcher())
    if needs_workers(run, launcher):
        raise SystemExit(run_ranks(run, launcher))
    try:
        with ExitStack() as entered:
            stop = entered.enter_context(StopSignal())
            entered.enter_context(kernel_settings(run.cudnn_deterministic))
            joined = joined_world(run, stop=stop, device_name=config.device)
            world = entered.enter_context(joined)
            if config.output_dir is not None:
                entered.enter_context(locked_run_dir(config.output_dir, world))
                world.watch.hang_dir = config.output_dir / "hang"
            yield world
    except (Stopped, RankLost) as ended:
        raise SystemExit(ended.exit_code) from None
    except (UserError, Diverged) as error:
        if not launcher.started_ranks:
            raise
        report(error, launcher.rank)
        raise SystemExit(error.exit_code) from None


def for_device(device: str | None, launcher: Launcher) -> Launcher:
    """The launcher of processes that may not use all GPUs."""
    return launcher if device in (None, "cuda") else replace(launcher, use_cpu=True)


def run_ranks(run: TrainConfig, launcher: Launcher) -> int:
    """Run this program once per rank of this machine; return the exit code of all."""
    refuse_missing_ids(run.launch)
    places = process_placement(run, launcher)
    changes = {} if places.gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(places.gpus)}
    machines = machine_addresses(run.launch)
    return run_workers(places.num_processes, script_command(), machines, changes).code
