"""A finished run that is resumed: its trackers log what they lack of it."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import choose_job_name
from manyhands.config.sections.trackers import enabled_trackers
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.launch.outcome import Ending
from manyhands.manifest import read_manifest
from manyhands.observe.diagnosis.run_verdict import read_facts
from manyhands.observe.run_log import RunLog
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.observe.wrapping import print_wrapped
from manyhands.parallel.world import joined_world
from manyhands.stop import StopSignal
from manyhands.training.evaluation_scores import FOLDER as EVALUATIONS
from manyhands.training.run_lock import locked_run_dir
from manyhands.training.tracking import Tracking, reject_missing_trackers


def complete_trackers(config: TrainConfig, stop: StopSignal) -> None:
    """Let the trackers of a finished run log what they lack; what prevents it is a warning."""
    checkpoint = Path(str(config.resume))
    run_dir = checkpoint.parent.parent
    try:
        reject_missing_trackers(config)
        run = finished_run(config, checkpoint, read_facts(run_dir))
        with (
            joined_world(TrainConfig(), None, stop, "cpu", Launcher()) as world,
            locked_run_dir(run_dir, world),
        ):
            run_log = RunLog(run_dir, run.config.num_steps, run.config.num_steps)
            run_log.log_start(read_facts(run_dir), [])
            run_log.print_line(f"Logging to {', '.join(enabled_trackers(config))} what is missing")
            tracking = Tracking(run, run_log, world)
            tracking.start()
            with tracking.until_failure():
                tracking.finish(Ending.FINISHED)
    except UserError as error:
        print_wrapped(f"WARNING: trackers cannot be completed: {error}", sys.stderr)
    except LookupError as error:
        fault = f"{run_dir / 'run.json'} has no {error}, it is of an earlier version"
        print_wrapped(f"WARNING: trackers cannot be completed: {fault}", sys.stderr)


def finished_run(config: TrainConfig, checkpoint: Path, facts: Mapping[str, Any]) -> TrackedRun:
    """The run as its last process left it."""
    manifest, _ = read_manifest(checkpoint)
    run_dir, last_step = checkpoint.parent.parent.absolute(), manifest["step"]
    samples_per_step = facts["batch"]["effective"]
    # Not zero: nothing of this run is new to a tracker that it names by a flag.
    start_step = min(max(1, facts["resumed_at"]), last_step)
    return TrackedRun(
        run_dir=run_dir,
        eval_dir=run_dir / EVALUATIONS,
        job_name=choose_job_name(config),
        config=replace(config, steps=last_step),
        start_step=start_step,
        start_samples=manifest["samples"] - (last_step - start_step) * samples_per_step,
        samples_per_step=samples_per_step,
        num_frames=facts["dataset"]["num_frames"],
        num_episodes=facts["dataset"]["num_episodes"],
    )
