"""From a config to a Run: each part in the order its dependencies force."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from manyhands.checkpoint.store import CheckpointStore, Position
from manyhands.config.features import FeatureType, PolicyFeature
from manyhands.config.policy import DEFAULT_BACKBONE_WEIGHTS, PolicyConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.loading.stream import Loading, SampleStream, Share
from manyhands.data.location import locate_dataset
from manyhands.data.order import SampleOrder
from manyhands.data.reading import Reading
from manyhands.errors import ConfigError, DatasetError, WeightsUnavailable
from manyhands.lerobot_format.dataset_info import DatasetInfo, read_info
from manyhands.lerobot_format.features import policy_features
from manyhands.lerobot_format.policy import self_contained
from manyhands.observe.audit import Audit, NoAudit
from manyhands.observe.clock import Clock
from manyhands.observe.journal import Journal, SilentJournal
from manyhands.parallel.accelerated import AcceleratedEngine
from manyhands.parallel.world import World, accumulation_of
from manyhands.policies.build import build_policy
from manyhands.policies.load import load_pretrained
from manyhands.policies.policy import Policy
from manyhands.rng import derive_seed
from manyhands.training.banner import banner_of, facts_of
from manyhands.training.due import Due
from manyhands.training.learner import Learner
from manyhands.training.meter import Meter
from manyhands.training.run import Run
from manyhands.types import Stats

POLL_EVERY = {"cpu": 1, "cuda": 10}
"""Updates between questions about stopping: asking takes as long as a tenth of a GPU's update."""
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def assemble(config: TrainConfig, run_dir: Path, world: World) -> Run:
    """Collective. Everything a run needs, restored to where it stands."""
    dataset, config = open_training_data(config)
    policy, notes = make_policy(config, dataset, world.device)
    num_parts = accumulation_of(config)
    share = Share(world.rank, world.size, config.batch_size * num_parts)
    learner = Learner(policy, config, AcceleratedEngine(world, num_parts), world, share)
    checkpoints = CheckpointStore(run_dir, config, world)
    start = checkpoints.restore(learner)
    order = SampleOrder(dataset.episode_bounds, config.seed)
    clock = Clock()
    run = Run(
        config=config,
        run_dir=run_dir,
        start=start,
        world=world,
        learner=learner,
        stream=SampleStream(dataset, order, share, loading_of(config, world)),
        checkpoints=checkpoints,
        journal=journal_of(config, run_dir, start, world),
        audit=audit_of(config, run_dir, start, world),
        clock=clock,
        meter=Meter(world, clock, share.samples_per_step),
        due=Due.from_config(config, POLL_EVERY[world.device.type]),
    )
    num_samples = order.num_samples
    run.journal.introduce(
        facts_of(run, dataset, num_samples), banner_of(run, dataset, num_samples) + notes
    )
    return run


def journal_of(
    config: TrainConfig, run_dir: Path, start: Position, world: World
) -> Journal | SilentJournal:
    """A journal on the main rank, silence on all others."""
    return Journal(run_dir, config.steps, start.step) if world.is_main else SilentJournal()


def audit_of(config: TrainConfig, run_dir: Path, start: Position, world: World) -> Audit | NoAudit:
    """A record of every sample, where asked for."""
    return Audit(run_dir, world.rank, world.size, start.step) if config.audit else NoAudit()


def loading_of(config: TrainConfig, world: World) -> Loading:
    """How batches are read ahead."""
    return Loading(
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor,
        multiprocessing_context=config.dataloader_multiprocessing_context,
        pin_memory=world.device.type == "cuda",
        num_ranks_per_node=world.num_local_ranks,
    )


def open_training_data(config: TrainConfig) -> tuple[Dataset, TrainConfig]:
    """The dataset with the windows the policy wants, and the config with the dataset's features."""
    source = config.dataset
    root = locate_dataset(source.repo_id, source.root, source.revision)
    info = read_info(root)
    assert config.policy is not None
    policy = with_features(config.policy, info)
    unread = [name for name in info.features if name.startswith("observation")]
    dataset = open_dataset(
        root=root,
        episodes=source.episodes,
        windows=windows_of(policy),
        reading=Reading(skip=[name for name in unread if name not in policy.input_features]),
    )
    return dataset, replace(config, policy=policy)


def with_features(policy: PolicyConfig, info: DatasetInfo) -> PolicyConfig:
    """The policy reading the features it asks for, or all a dataset has."""
    inputs, outputs = policy_features(info.features)
    asked = policy.input_features
    faults = [
        f"the policy {verb} {name}, {feature.type.value} of shape {list(feature.shape)} "
        f"(--policy.{flag}); {_offer(name, offered)}"
        for verb, flag, wanted, offered in (
            ("reads", "input_features", asked, inputs),
            ("predicts", "output_features", policy.output_features, outputs),
        )
        for name, feature in wanted.items()
        if offered.get(name) != feature
    ]
    if "action" not in outputs:
        raise DatasetError(
            f"the dataset has no feature `action`; it has {', '.join(info.features)}"
        )
    if faults:
        raise ConfigError(faults)
    return replace(policy, input_features=asked or inputs, output_features=outputs)


def _offer(name: str, inputs: dict[str, PolicyFeature]) -> str:
    if name in inputs:
        return (
            f"the dataset has it as {inputs[name].type.value} of shape {list(inputs[name].shape)}"
        )
    return f"the dataset has {', '.join(inputs)}"


def windows_of(policy: PolicyConfig) -> dict[str, list[int]]:
    """Frame offsets by key, as the policy's windows say."""
    windows = dict.fromkeys(policy.output_features, policy.action_offsets)
    if policy.observation_offsets is not None:
        windows |= dict.fromkeys(policy.input_features, policy.observation_offsets)
    return windows


def make_policy(
    config: TrainConfig, dataset: Dataset, device: torch.device
) -> tuple[Policy, list[str]]:
    """The policy on a device, the same on every rank, and what must be said of it."""
    assert config.policy is not None
    policy_config = replace(config.policy, device=device.type)
    stats = statistics_of(config.dataset, policy_config, dataset)
    torch.manual_seed(derive_seed(config.seed, "weights"))
    if config.resume is not False:
        return build_policy(self_contained(policy_config), stats).to(device), []
    policy, notes = fresh_policy(policy_config, stats)
    if not stats:
        notes.append("WARNING: the dataset has no meta/stats.json: values are not normalized")
    if policy_config.pretrained_path is not None:
        load_pretrained(policy, policy_config)
    return policy.to(device), notes


def fresh_policy(config: PolicyConfig, stats: Stats) -> tuple[Policy, list[str]]:
    """A new policy; offline, weights that nobody asked for by name are done without, aloud."""
    try:
        return build_policy(config, stats), []
    except WeightsUnavailable as error:
        if getattr(config, "pretrained_backbone_weights", None) != DEFAULT_BACKBONE_WEIGHTS:
            raise
        note = f"WARNING: the image encoder starts from random weights: {error}"
        return build_policy(self_contained(config), stats), [note]


def statistics_of(source: DatasetConfig, policy: PolicyConfig, dataset: Dataset) -> Stats:
    """The dataset's statistics, cameras with ImageNet's mean and deviation where asked."""
    stats = dict(dataset.stats)
    if not source.use_imagenet_stats:
        return stats
    imagenet = {name: np.reshape(values, (3, 1, 1)) for name, values in IMAGENET.items()}
    for name, feature in policy.input_features.items():
        if feature.type is FeatureType.VISUAL and feature.shape[0] == 3:
            stats[name] = stats.get(name, {}) | imagenet
    return stats
