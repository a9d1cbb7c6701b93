"""Builds a Run from a config, in the order of dependencies."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from manyhands.checkpoint.snapshot import Position
from manyhands.checkpoint.store import CheckpointStore, resumed_position
from manyhands.config.policies.base import DEFAULT_BACKBONE_WEIGHTS, PolicyConfig
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import SampleStream, Share
from manyhands.errors import WeightsUnavailable
from manyhands.observe.audit import Audit, NoAudit
from manyhands.observe.clock import Clock
from manyhands.observe.run_log import Journal, SilentJournal
from manyhands.parallel.cuda import waking
from manyhands.parallel.engine import engine_of
from manyhands.parallel.world import World
from manyhands.policies.adapters import adapt, new_settings, refuse_statistics
from manyhands.policies.build import build_policy
from manyhands.policies.load import find_policy, load_pretrained, prepare_adapters, saved_stats
from manyhands.policies.policy import Policy
from manyhands.rng import derive_seed
from manyhands.training.health.loss_spikes import Remarks
from manyhands.training.health.nonfinite_guard import Guard
from manyhands.training.health.nonfinite_samples import Investigation
from manyhands.training.health.out_of_memory import told_if_full
from manyhands.training.loop import secure_return
from manyhands.training.metrics import Meter
from manyhands.training.periods import Due, StopPoll
from manyhands.training.run import Run
from manyhands.training.setup.banner import banner_of, batch_norm_notes, facts_of
from manyhands.training.setup.batch import settled, share_of
from manyhands.training.setup.batch_size_search import fitting_share
from manyhands.training.setup.data import (
    TrainingData,
    loading_of,
    max_ram_of,
    open_training_data,
    scaling_stats,
    windows_of,
)
from manyhands.training.setup.vision_tokens import with_vision_tokens
from manyhands.training.step.ema import LIVE
from manyhands.training.step.learner import Learner, seed_host
from manyhands.training.validation import CHUNK, HeldOut, NoValidator, Validator, held_out_rows
from manyhands.types import Stats

DTYPES = {"float32": torch.float32, "float64": torch.float64}
JUDGE_EVERY = {"cpu": 1, "cuda": 10}
"""Steps between two checks for NaN or Inf; each check synchronizes with the GPU."""


def assemble(config: TrainConfig, run_dir: Path, world: World) -> Run:
    """Collective. Build everything a run needs, restored to its position."""
    data, config = open_training_data(config, world.once)
    share = share_of(config, world.rank, world.size)
    position, num_samples = resumed_position(config), data.order.num_samples
    config = settled(config, position, num_samples, share.samples_per_step)
    loading = loading_of(config, world.num_local_ranks, world.device.type == "cuda")
    stream = SampleStream(data.source, data.order, share, loading, world.device)
    learner, notes = fitting_learner(config, data.stats, world, stream)
    learner.policy.check_language()
    checkpoints = CheckpointStore(run_dir, config, world)
    start, resuming = checkpoints.restore(learner)
    data = with_vision_tokens(data, learner.policy, config, world)
    stream = replace(stream, source=data.source)
    clock, due = Clock(world.watch.begin), Due.from_config(config, JUDGE_EVERY[world.device.type])
    held_out = held_out_of(config, data, learner.policy, world)
    journal = journal_of(config, run_dir, start, world)
    run = Run(
        config=config,
        run_dir=run_dir,
        start=start,
        world=world,
        learner=learner,
        stream=stream,
        frames=data.kept,
        validator=validator_of(held_out, learner, due, clock),
        checkpoints=checkpoints,
        journal=journal,
        audit=audit_of(config, run_dir, start, world),
        clock=clock,
        meter=Meter(world, clock, share.samples_per_step, due, start.step),
        guard=guard_of(config, stream, world, journal),
        remarks=Remarks(journal),
        due=due,
        stop_poll=StopPoll(world),
    )
    world.once_per_machine(lambda: data.kept.read_ahead_meanwhile(max_ram_of(config)))
    journal.introduce(facts_of(run, data), banner_of(run, data) + notes + data.notes + resuming)
    secure_return(run)
    return run


def fitting_learner(
    config: TrainConfig, stats: Stats, world: World, stream: SampleStream
) -> tuple[Learner, list[str]]:
    """Collective. Build a learner for the batches of a stream; return it with notes to log."""
    share, tried = stream.share, list[str]()
    if config.find_batch_size:
        batches = stream.starting_at(resumed_position(config).samples)
        make = partial(learner_of, config, stats, world)
        share, tried = fitting_share(share, lambda smaller: make(smaller)[0], batches, world)
    learner, notes = learner_of(config, stats, world, share)
    return learner, notes + tried + batch_norm_notes(learner.policy.network, share)


def learner_of(
    config: TrainConfig, stats: Stats, world: World, share: Share
) -> tuple[Learner, list[str]]:
    """Build the learner; return it with warnings to log."""
    with told_if_full(share, world):
        # Until DDP is built: nothing else may use a GPU while ranks communicate.
        with waking(world.device):
            policy, notes = make_policy(config, stats, world.device)
        return learner_with(policy, config, world, share), notes


def learner_with(policy: Policy, config: TrainConfig, world: World, share: Share) -> Learner:
    """Collective. Build a learner that trains a policy with the strategy of the run."""
    engine = engine_of(world, share.num_parts, config.accelerator.ddp)
    return Learner(policy, config, engine, world, share)


def guard_of(
    config: TrainConfig, stream: SampleStream, world: World, journal: Journal | SilentJournal
) -> Guard:
    """Build a guard that knows the frames and features of a sample."""
    assert config.policy is not None
    windows = {key: [0] for key in config.policy.recorded_features} | windows_of(config.policy)
    return Guard(config.on_nonfinite, world, Investigation(stream, windows, world), journal)


def journal_of(
    config: TrainConfig, run_dir: Path, start: Position, world: World
) -> Journal | SilentJournal:
    """A journal on the main rank, a no-op journal on all others."""
    return Journal(run_dir, config.num_steps, start.step) if world.is_main else SilentJournal()


def audit_of(config: TrainConfig, run_dir: Path, start: Position, world: World) -> Audit | NoAudit:
    """A record of every sample, if enabled."""
    return Audit(run_dir, world.rank, world.size, start.step) if config.audit else NoAudit()


def held_out_of(
    config: TrainConfig, data: TrainingData, policy: Policy, world: World
) -> HeldOut | None:
    """The held-out samples, if there are any."""
    if data.held_out is None:
        return None
    share = Share(world.rank, world.size, CHUNK * world.size)
    loading = loading_of(config, world.num_local_ranks)
    stream = SampleStream(data.held_out, data.order, share, loading, world.device)
    rows = held_out_rows(data.held_out, config.max_eval_samples)
    return HeldOut(stream, rows, policy, world, config.seed)


def validator_of(
    held_out: HeldOut | None, learner: Learner, due: Due, clock: Clock
) -> Validator | NoValidator:
    """Build the validator, for live weights and EMA weights as configured."""
    weights = learner.ema.weights if learner.config.ema.use_for_eval else LIVE
    return NoValidator() if held_out is None else Validator(held_out, weights, due, clock)


def make_policy(
    config: TrainConfig, stats: Stats, device: torch.device
) -> tuple[Policy, list[str]]:
    """Build the policy on a device, identical on every rank; return it with notes to log."""
    assert config.policy is not None
    policy_config = replace(config.policy, device=device.type)
    stats, dtype = scaling_stats(config, stats), DTYPES[config.dtype]
    seed = derive_seed(config.seed, "weights")
    torch.manual_seed(seed)
    seed_host(seed)
    if config.resumes:
        # A resumed run keeps its statistics, even if its dataset has grown.
        saved = saved_stats(str(config.resume))
        policy = build_policy(policy_config.self_contained(), saved, config.rename_map)
        prepare_adapters(policy, find_policy(str(config.resume)))
        return trainable(policy).to(device, dtype), []
    policy, notes = fresh_policy(policy_config, stats, config.rename_map)
    if policy_config.pretrained_path is not None:
        load_pretrained(policy, policy_config)
    if config.peft is not None:
        adapt(policy, new_settings(config.peft, policy_config))
    return trainable(policy).to(device, dtype), notes


def trainable(policy: Policy) -> Policy:
    """The policy, if a checkpoint can store all that training changes."""
    if policy.adapters is not None:
        refuse_statistics(policy.network)
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
        return build_policy(config.self_contained(), stats, rename_map), [note]
