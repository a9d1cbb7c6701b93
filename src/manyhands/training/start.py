"""A complete run, from joining the other ranks to leaving them."""

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

import torch

from manyhands import garbage
from manyhands.config.resolve import choose_output_dir
from manyhands.config.runs.run_dir import PRETRAINED, PRETRAINED_EMA, find_checkpoint
from manyhands.config.train import TrainConfig
from manyhands.launch.environment import restarts_so_far
from manyhands.launch.outcome import Ending
from manyhands.launch.program import resume_command
from manyhands.observe.jsonl import read_rows
from manyhands.observe.start_phases import StartPhases
from manyhands.parallel.world import World, joined_world
from manyhands.policies.build import network_factory
from manyhands.stop import StopSignal
from manyhands.training.loop import train
from manyhands.training.output_dir import reject_run_dir
from manyhands.training.rollback import ensure_checkpoint
from manyhands.training.run import Run
from manyhands.training.run_lock import locked_run_dir
from manyhands.training.setup.assemble import assemble
from manyhands.training.setup.banner import format_banner, run_facts
from manyhands.training.setup.data import data_ram_limit
from manyhands.training.step.kernel_choice import kernel_settings
from manyhands.training.tracking import reject_missing_trackers


def run_training(
    config: TrainConfig,
    command: Sequence[str] = (),
    stop: StopSignal | None = None,
    phases: StartPhases | None = None,
) -> Ending:
    """Collective over the ranks a launcher started. Train with a config.

    A stop request before the first step raises Stopped.
    """
    stop, phases = stop or StopSignal(), phases or StartPhases(is_shown=False)
    assert config.policy is not None
    network_factory(config.policy.type)  # Rejects an unknown policy first.
    reject_missing_trackers(config)
    with (
        kernel_settings(config.cudnn_deterministic),
        joined_world(config, stop=stop) as world,
        locked_run_dir(agree_on_run_dir(config, world), world) as run_dir,
    ):
        world.watch.hang_dir = run_dir / "hang"
        if config.policy.push_to_hub:
            # Imports the library of the Hub, which other runs do not need.
            from manyhands.policies.publish import check_hub_access

            world.on_main(lambda: check_hub_access(config))
        with garbage.paused():
            run = assemble(config, run_dir, world, phases)
        begin(run, command)
        with run.tracking.until_failure(), closing(run.learner), closing(run.profiler):
            phases.begin("training on the", "first batch")
            ending = train(run)
        world.on_each_machine(run.data.kept.make_durable)
        run.run_log.log_end(ending.value)
        run.tracking.finish(ending)
        run.run_log.log_line(final_message(ending, run_dir, config))
    if config.policy.push_to_hub and ending is Ending.FINISHED and world.is_main:
        stop.raise_if_requested()
        publish_run(run)
    return ending


def begin(run: Run, command: Sequence[str] = ()) -> None:
    """Collective. Read cached frames ahead, log the banner, save what a rollback needs."""
    max_ram = data_ram_limit(run.config)
    run.world.on_each_machine(lambda: run.data.kept.read_ahead_in_background(max_ram))
    run.run_log.log_start(run_facts(run), format_banner(run) + run.notes)
    run.tracking.start()
    ensure_checkpoint(run)
    run.run_log.note({"command": list(command), "threads": torch.get_num_threads()})
    run.run_log.note({"restarts": restarts_so_far()})


def publish_run(run: Run) -> None:
    """Upload the newest checkpoint; the other ranks have already left."""
    from manyhands.policies.publish import publish_checkpoint

    facts = json.loads((run.run_dir / "run.json").read_text(encoding="utf-8"))
    rows = list(read_rows(run.run_dir / "metrics.jsonl"))
    for line in publish_checkpoint(find_checkpoint(run.run_dir), run.config, facts, rows):
        run.run_log.log_line(line)


def final_message(ending: Ending, run_dir: Path, config: TrainConfig) -> str:
    """The last line of the log: result and next command."""
    if not config.save_checkpoint:
        return f"{ending.value}; nothing was saved (--save_checkpoint=false)"
    if ending is Ending.STOPPED:
        return f"stopped on request; continue with: {resume_command(run_dir)}"
    averaged = f" (EMA weights: {PRETRAINED_EMA})" if config.ema.enable else ""
    return f"finished; policy: {run_dir}/checkpoints/last/{PRETRAINED}{averaged}"


def agree_on_run_dir(config: TrainConfig, world: World) -> Path:
    """Collective. One run directory for all ranks; a fresh run never writes into an old one."""
    run_dir = world.broadcast(choose_output_dir(config, datetime.now()))
    world.on_main(lambda: reject_run_dir(run_dir, config))
    return run_dir
