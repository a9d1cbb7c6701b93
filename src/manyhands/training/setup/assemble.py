"""Builds a Run from a config, in the order of dependencies."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from manyhands.checkpoint.store import CheckpointStore
from manyhands.config.policies.base import DEFAULT_BACKBONE_WEIGHTS, PolicyConfig
from manyhands.config.resolve import choose_job_name
from manyhands.config.sections.profile import profiled_steps
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit, SampleStream
from manyhands.data.policy_reading import windows_of
from manyhands.errors import WeightsUnavailable
from manyhands.observe.audit import Audit, NoAudit
from manyhands.observe.clock import Clock
from manyhands.observe.load_sampler import LoadSampler
from manyhands.observe.meters import NOT_TRAINING, Meters
from manyhands.observe.profiler import NoProfiler, StepProfiler
from manyhands.observe.run_log import NullRunLog, RunLog
from manyhands.observe.start_phases import StartPhases
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.parallel.cuda import warming_up
from manyhands.parallel.data_parallel import devices_of
from manyhands.parallel.engine import build_engine
from manyhands.parallel.world import World
from manyhands.policies.adapters import adapt, new_settings, reject_batch_statistics
from manyhands.policies.build import build_policy
from manyhands.policies.load import find_policy, load_pretrained, prepare_adapters, saved_stats
from manyhands.policies.policy import Policy
from manyhands.rng import derive_seed
from manyhands.training.early_stopping import EarlyStopping
from manyhands.training.evaluation import PeriodicEvaluation, build_rollouts
from manyhands.training.evaluation_scores import FOLDER as EVALUATIONS
from manyhands.training.health.loss_spikes import LossSpikes
from manyhands.training.health.nonfinite_guard import NonFiniteGuard
from manyhands.training.health.nonfinite_samples import SampleInspector
from manyhands.training.health.out_of_memory import explaining_oom
from manyhands.training.held_out_actions import build_held_out_actions
from manyhands.training.metrics import MetricsWindow
from manyhands.training.periods import Periods, StopPoll
from manyhands.training.run import Run
from manyhands.training.setup.banner import batch_norm_notes
from manyhands.training.setup.batch_size_search import find_batch_size
from manyhands.training.setup.data import (
    TrainingData,
    loader_options,
    open_training_data,
    scaling_stats,
)
from manyhands.training.setup.resolved_run import ResolvedRun, resolve_run
from manyhands.training.setup.vision_tokens import with_vision_tokens
from manyhands.training.step.ema import LIVE, Weights
from manyhands.training.step.learner import Learner, seed_host_rng
from manyhands.training.step.train_step import TrainStep
from manyhands.training.tracking import Tracking
from manyhands.training.validation import CHUNK, HeldOut, Measure, Validator, held_out_rows
from manyhands.types import Stats

DTYPES = {"float32": torch.float32, "float64": torch.float64}
AnyRunLog = RunLog | NullRunLog
JUDGE_EVERY = {"cpu": 1, "cuda": 10, "mps": 10}
"""Steps between two checks for NaN or Inf; each check synchronizes with the GPU."""


def assemble(
    config: TrainConfig, run_dir: Path, world: World, phases: StartPhases | None = None
) -> Run:
    """Collective. Build everything a run needs, restored to its position."""
    phases = phases or StartPhases(is_shown=False)
    phases.begin("checking the", "dataset")
    data, config = open_training_data(config, world.on_main)
    resolved = resolve_run(config, data.order.num_samples, world.rank, world.size)
    phases.begin("building the", "policy")
    run_log = build_run_log(resolved, run_dir, world, phases)
    return build_run(resolved, data, run_dir, world, run_log)


def build_run(
    resolved: ResolvedRun, data: TrainingData, run_dir: Path, world: World, run_log: AnyRunLog
) -> Run:
    """Collective. Build the parts of a run, in the order of their dependencies."""
    config, start, resume = resolved.config, resolved.start, resolved.resume
    stream = build_stream(resolved, data, world)
    learner, notes = build_fitting_learner(resolved, data.stats, world, stream)
    checkpoints = CheckpointStore(run_dir, config, world)
    resuming = [] if resume is None else checkpoints.restore(learner, resume)
    data = with_vision_tokens(data, learner.policy, config, world)
    stream = replace(stream, source=data.source)
    meters = build_meters(run_dir, world, stream, learner)
    periods = Periods.from_config(config, JUDGE_EVERY[world.device.type])
    measures = build_measures(config, data, learner, world)
    rollouts = build_rollouts(config, learner, world, run_dir)
    return Run(
        config=config,
        run_dir=run_dir,
        start=start,
        resume=resume,
        world=world,
        learner=learner,
        stream=stream,
        data=data,
        notes=notes + data.notes + resuming,
        validator=Validator(measures, evaluated_weights(config, learner), periods, meters.clock),
        evaluation=PeriodicEvaluation(rollouts, periods, meters.clock),
        checkpoints=checkpoints,
        run_log=run_log,
        tracking=build_tracking(resolved, data, run_dir, world, run_log),
        audit=Audit(run_dir, world.rank, world.size, start.step) if config.audit else NoAudit(),
        profiler=build_profiler(config, start.step, run_dir, world, run_log),
        meters=meters,
        metrics_window=build_metrics_window(resolved, world, meters, periods),
        guard=build_guard(config, stream, world, run_log),
        loss_spikes=LossSpikes(run_log),
        early_stopping=EarlyStopping(config, world, run_dir / "metrics.jsonl"),
        periods=periods,
        stop_poll=StopPoll(world),
    )


def build_stream(resolved: ResolvedRun, data: TrainingData, world: World) -> SampleStream:
    """The batches of this rank."""
    loading = loader_options(resolved.config, world.num_local_ranks, world.device.type == "cuda")
    return SampleStream(data.source, data.order, resolved.split, loading, world.device)


def build_run_log(
    resolved: ResolvedRun, run_dir: Path, world: World, phases: StartPhases
) -> AnyRunLog:
    """The log of a run, which the main rank writes."""
    if not world.is_main:
        return NullRunLog()
    return RunLog(run_dir, resolved.config.num_steps, resolved.start.step, phases)


def evaluated_weights(config: TrainConfig, learner: Learner) -> Weights:
    """The averaged weights where they exist, else those that are trained."""
    return learner.ema.weights if config.ema.use_for_eval else LIVE


def build_meters(run_dir: Path, world: World, stream: SampleStream, learner: Learner) -> Meters:
    """The instruments of this rank: a clock, the phases of its steps, its load."""
    phases = (stream.copies.lap, learner.step.phases.lap)
    clock = Clock(world.watch.begin)
    devices = devices_of(world.device, world.strategy.num_devices)
    load = LoadSampler(run_dir, devices, lambda: clock.seconds_since(NOT_TRAINING))
    return Meters(clock, phases, load)


def build_profiler(
    config: TrainConfig, step: int, run_dir: Path, world: World, run_log: AnyRunLog
) -> StepProfiler | NoProfiler:
    """The profiler of this rank."""
    steps = profiled_steps(config.profile, step)
    if steps is None:
        return NoProfiler()
    return StepProfiler(run_dir, steps, world.rank, world.device, run_log.log_line)


def build_metrics_window(
    resolved: ResolvedRun, world: World, meters: Meters, periods: Periods
) -> MetricsWindow:
    """The metrics since the last row; those of an interrupted row are resumed."""
    samples, resume = resolved.split.samples_per_step, resolved.resume
    window = MetricsWindow(world, meters, samples, periods, resolved.start.step)
    if resume is not None and resume.pending_metrics is not None:
        window.resume(resume.pending_metrics)
    return window


def build_fitting_learner(
    resolved: ResolvedRun, stats: Stats, world: World, stream: SampleStream
) -> tuple[Learner, list[str]]:
    """Collective. Build a learner for the batches of a stream; return it with notes to log."""
    config, split, tried = resolved.config, stream.split, list[str]()
    if config.find_batch_size:
        batches = stream.starting_at(resolved.start.samples)
        make = partial(build_learner, config, stats, world)
        split, tried = find_batch_size(split, lambda smaller: make(smaller)[0], batches, world)
    learner, notes = build_learner(config, stats, world, split)
    learner.policy.check_language()
    return learner, notes + tried + batch_norm_notes(learner.policy.network, split)


def build_learner(
    config: TrainConfig, stats: Stats, world: World, split: BatchSplit
) -> tuple[Learner, list[str]]:
    """Build the learner; return it with warnings to log."""
    with explaining_oom(split, world):
        # Until DDP is built: nothing else may use a GPU while ranks communicate.
        with warming_up(world.device):
            policy, notes = build_initial_policy(config, stats, world.device)
        return make_learner(policy, config, world, split), notes


def make_learner(policy: Policy, config: TrainConfig, world: World, split: BatchSplit) -> Learner:
    """Collective. Build a learner that trains a policy with the strategy of the run."""
    engine = build_engine(world, split.num_micro_batches, config.accelerator.ddp)
    return Learner(TrainStep(policy, config, engine, world, split), config)


def build_tracking(
    resolved: ResolvedRun,
    data: TrainingData,
    run_dir: Path,
    world: World,
    run_log: AnyRunLog,
) -> Tracking:
    """The trackers of a run, not started yet."""
    tracked = TrackedRun(
        run_dir=run_dir.absolute(),
        eval_dir=run_dir.absolute() / EVALUATIONS,
        job_name=choose_job_name(resolved.config),
        config=resolved.config,
        start_step=resolved.start.step,
        start_samples=resolved.start.samples,
        samples_per_step=resolved.split.samples_per_step,
        num_frames=data.source.num_frames,
        num_episodes=data.source.num_episodes,
    )
    return Tracking(tracked, run_log, world)


def build_guard(
    config: TrainConfig, stream: SampleStream, world: World, run_log: AnyRunLog
) -> NonFiniteGuard:
    """Build a guard that knows the frames and features of a sample."""
    assert config.policy is not None
    windows = {key: [0] for key in config.policy.recorded_features} | windows_of(config.policy)
    return NonFiniteGuard(
        config.on_nonfinite, world, SampleInspector(stream, windows, world), run_log
    )


def build_measures(
    config: TrainConfig, data: TrainingData, learner: Learner, world: World
) -> list[Measure]:
    """What is measured on held-out samples, if there are any."""
    policy = learner.policy
    if data.held_out is None:
        return []
    split = BatchSplit(world.rank, world.size, CHUNK * world.size)
    loading = loader_options(config, world.num_local_ranks)
    stream = SampleStream(data.held_out, data.order, split, loading, world.device)
    rows = held_out_rows(data.held_out, config.max_eval_samples)
    held_out = HeldOut(stream, rows, policy, world, config.seed)
    if not config.eval.open_loop:
        return [held_out]
    return [held_out, build_held_out_actions(config, data.held_out, policy, world)]


def build_initial_policy(
    config: TrainConfig, stats: Stats, device: torch.device
) -> tuple[Policy, list[str]]:
    """Build the policy on a device, identical on every rank; return it with notes to log."""
    assert config.policy is not None
    policy_config = replace(config.policy, device=device.type)
    stats, dtype = scaling_stats(config, stats), DTYPES[config.dtype]
    seed = derive_seed(config.seed, "weights")
    torch.manual_seed(seed)
    seed_host_rng(seed)
    if config.resumes:
        # A resumed run keeps its statistics, even if its dataset has grown.
        saved = saved_stats(str(config.resume))
        policy = build_policy(policy_config.without_downloads(), saved, config.rename_map)
        prepare_adapters(policy, find_policy(str(config.resume)))
        return check_trainable(policy).to(device, dtype), []
    policy, notes = fresh_policy(policy_config, stats, config.rename_map)
    if policy_config.pretrained_path is not None:
        load_pretrained(policy, policy_config)
    if config.peft is not None:
        adapt(policy, new_settings(config.peft, policy_config))
    return check_trainable(policy).to(device, dtype), notes


def check_trainable(policy: Policy) -> Policy:
    """The policy, if a checkpoint can store all that training changes."""
    if policy.adapters is not None:
        reject_batch_statistics(policy.network)
    return policy


def fresh_policy(
    config: PolicyConfig, stats: Stats, rename_map: Mapping[str, str]
) -> tuple[Policy, list[str]]:
    """Build a new policy; without network access, warn and skip default pretrained weights."""
    try:
        return build_policy(config, stats, rename_map), []
    except WeightsUnavailable as error:
        if getattr(config, "pretrained_backbone_weights", None) != DEFAULT_BACKBONE_WEIGHTS:
            raise
        note = f"WARNING: image encoder uses random weights: {error}"
        return build_policy(config.without_downloads(), stats, rename_map), [note]
