"""The data of a run: datasets with the policy's windows, sample order and statistics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from manyhands.config.policies.base import PolicyConfig, visual_features
from manyhands.config.policies.features import FeatureType
from manyhands.config.train import TrainConfig
from manyhands.data.cache.frame_cache import (
    CacheOptions,
    FrameCaches,
    cache_options,
    plan_frame_caches,
)
from manyhands.data.cache.store import CacheStores
from manyhands.data.cache.token_cache import TokenCaches
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.dataset_selection import TrainDataset, find_datasets
from manyhands.data.loading.forkserver import num_loaders
from manyhands.data.loading.stream import PREFETCH_RAM_FRACTION, LoaderOptions
from manyhands.data.mixture import Mixture
from manyhands.data.order import MixedOrder, SampleOrder
from manyhands.data.policy_reading import part_reading, windows_of
from manyhands.data.read_options import ReadOptions
from manyhands.data.statistics import complete_stats
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.statistics import aggregate_stats
from manyhands.observe.console import progress_bar
from manyhands.observe.host_memory import host_memory
from manyhands.rng import derive_seed
from manyhands.training.setup.checks import (
    Checked,
    check_budget,
    check_dataset,
    check_notes,
    exclusions,
)
from manyhands.training.setup.features import unread_cameras, with_features
from manyhands.types import Stats
from manyhands.units import parse_bytes

DEFAULT_RAM_SHARE = 0.5  # Default fraction of the available memory that data may use.


def loader_options(
    config: TrainConfig, num_ranks_per_node: int = 1, pin_memory: bool = False
) -> LoaderOptions:
    """Prefetch settings of one rank, for training or for the held-out loss."""
    # Loader processes of training keep their batches while those of the held-out loss run.
    num_streams = 2 if config.eval_steps > 0 else 1
    return LoaderOptions(
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor,
        multiprocessing_context=config.dataloader_multiprocessing_context,
        pin_memory=pin_memory,
        num_ranks_per_node=num_ranks_per_node,
        max_ram_bytes=data_ram_limit(config) // (num_ranks_per_node * num_streams),
    )


def data_ram_limit(config: TrainConfig) -> int:
    """Bytes of this machine's memory that data may use."""
    if config.max_ram is not None:
        return parse_bytes(config.max_ram)
    return int(host_memory().available_bytes * DEFAULT_RAM_SHARE)


T = TypeVar("T")

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


class OnMain(Protocol):
    """Runs work in one process and broadcasts the result."""

    def __call__(self, work: Callable[[], T]) -> T: ...


def alone(work: Callable[[], T]) -> T:
    """Run work in a single process."""
    return work()


@dataclass(frozen=True)
class TrainingData:
    """The source of samples, and their order."""

    source: Dataset | Mixture
    order: SampleOrder | MixedOrder
    held_out: Dataset | Mixture | None
    stats: Stats
    caches: FrameCaches
    left_out: list[str]  # Faults whose samples are excluded.
    notes: list[str]  # Notes to log.
    tokens: TokenCaches | None = None  # Caches that replace images; None if images are read.

    @property
    def kept(self) -> CacheStores:
        """The camera caches of this machine."""
        return self.caches if self.tokens is None else self.tokens


def open_training_data(config: TrainConfig, once: OnMain) -> tuple[TrainingData, TrainConfig]:
    """Open the data of a run; return it with the config completed by the policy's features."""
    assert config.policy is not None
    parts = find_datasets(config.dataset)
    check_rename_map(config.rename_map, parts)
    reading = read_options(config)
    features = reading.delivered_features(parts[0].meta.info.features)
    policy = with_features(config.policy, features)
    readings = [part_reading(part, policy, reading) for part in parts]
    found = once(
        lambda: [
            check_dataset(part, own, config.dataset, policy)
            for part, own in zip(parts, readings, strict=True)
        ]
    )
    opened, caches = open_datasets(
        [each.part for each in found], readings, policy, run_cache_options(config)
    )
    orders = orders_of(found, opened, policy, config.seed)
    excluded = [
        each.exclusion(order, policy.num_dropped_frames)
        for each, order in zip(found, orders, strict=True)
    ]
    check_budget(found, excluded, config.dataset)
    held_out = [each.held_out for each in opened if each.held_out is not None]
    data = TrainingData(
        source=as_one_source([each.training for each in opened], policy),
        order=mixed(orders, opened, config.seed),
        held_out=as_one_source(held_out, policy) if held_out else None,
        stats=once(lambda: stats_of(opened)),
        caches=caches,
        left_out=exclusions(found),
        notes=[
            *check_notes(found, excluded),
            *cache_notes(policy, caches),
            *unread_cameras(policy, features),
        ],
    )
    return data, replace(config, policy=policy)


@dataclass(frozen=True)
class OpenedDataset:
    """One opened dataset of a run."""

    part: TrainDataset
    training: Dataset
    held_out: Dataset | None


def open_datasets(
    parts: Sequence[TrainDataset],
    readings: Sequence[ReadOptions],
    policy: PolicyConfig,
    options: CacheOptions,
) -> tuple[list[OpenedDataset], FrameCaches]:
    """Open all datasets with the windows of a policy and their frame caches."""
    sources = [(part.source, own) for part, own in zip(parts, readings, strict=True)]
    caches = plan_frame_caches(sources, options)
    windows = windows_of(policy)
    opened = []
    for part, own, cache in zip(parts, readings, caches.caches, strict=True):
        kept = replace(own, cache=cache)
        training, held_out = (
            open_dataset(None, part.root, episodes.tolist(), windows, kept)
            if episodes.size
            else None
            for episodes in (part.training, part.held_out)
        )
        assert training is not None
        opened.append(OpenedDataset(part, training, held_out))
    return opened, caches


def loading_facts(
    config: TrainConfig, data: TrainingData, num_ranks_per_node: int
) -> dict[str, Any]:
    """How a rank loads data, for `run.json`; without images to read there is no frame cache."""
    assert config.policy is not None
    reads_images = data.tokens is None and visual_features(config.policy)
    return {
        "num_workers": num_loaders(config.num_workers, num_ranks_per_node),
        "frame_cache": data.caches.facts if reads_images else None,
    }


def cache_notes(policy: PolicyConfig, caches: FrameCaches) -> list[str]:
    """Where frames are cached and why, for policies with cameras."""
    return [f"Frame cache: {caches.reason}"] if visual_features(policy) else []


def read_options(config: TrainConfig) -> ReadOptions:
    """How the datasets of a run are read."""
    return ReadOptions(
        rename_map=config.rename_map,
        image_size=config.dataset.image_size,
        depth_unit=config.dataset.depth_output_unit,
        as_vectors=True,
        home=config.cache.folder,
    )


def check_rename_map(rename_map: Mapping[str, str], parts: Sequence[TrainDataset]) -> None:
    """Reject names that no dataset has."""
    known = dict.fromkeys(key for part in parts for key in part.meta.info.features)
    unknown = [key for key in rename_map if key not in known]
    if unknown:
        raise DatasetError(
            f"--rename_map names features that no dataset has: {', '.join(unknown)}. Features: "
            f"{', '.join(known)}"
        )


def run_cache_options(config: TrainConfig) -> CacheOptions:
    """Cache settings of a run; prefetched batches need memory too."""
    return cache_options(config.cache, int(data_ram_limit(config) * (1 - PREFETCH_RAM_FRACTION)))


def as_one_source(datasets: Sequence[Dataset], policy: PolicyConfig) -> Dataset | Mixture:
    """A single dataset, or a mixture of several."""
    if len(datasets) == 1:
        return datasets[0]
    return Mixture(datasets, [*policy.recorded_features, *policy.output_features])


def datasets_of(source: Dataset | Mixture) -> list[Dataset]:
    """The datasets of a source."""
    return source.parts if isinstance(source, Mixture) else [source]


def orders_of(
    found: Sequence[Checked], opened: Sequence[OpenedDataset], policy: PolicyConfig, seed: int
) -> list[SampleOrder]:
    """The sample order of each dataset, without bad samples."""
    seeds = (
        [seed] if len(opened) == 1 else [derive_seed(seed, "part", n) for n in range(len(opened))]
    )
    return [
        SampleOrder(
            each.training.episode_bounds,
            own_seed,
            policy.num_dropped_frames,
            check.bad_rows(each.training),
        )
        for check, each, own_seed in zip(found, opened, seeds, strict=True)
    ]


def mixed(
    orders: Sequence[SampleOrder], opened: Sequence[OpenedDataset], seed: int
) -> SampleOrder | MixedOrder:
    """The order of all samples; several datasets are mixed by weight."""
    if len(orders) == 1:
        return orders[0]
    first_rows = np.cumsum([0, *(len(each.training) for each in opened)])
    return MixedOrder(orders, [each.part.weight for each in opened], first_rows, seed)


def stats_of(opened: Sequence[OpenedDataset]) -> Stats:
    """Statistics of all datasets together, without held-out episodes."""
    with progress_bar("computing statistics") as on_progress:
        each = [
            complete_stats(one.training, not one.part.uses_all_episodes, on_progress)
            for one in opened
        ]
    return each[0] if len(each) == 1 else aggregate_stats(each)


def scaling_stats(config: TrainConfig, stats: Stats) -> Stats:
    """Statistics for normalization; ImageNet's mean and std for cameras if configured."""
    assert config.policy is not None
    if not config.dataset.use_imagenet_stats:
        return stats
    imagenet = {name: np.reshape(values, (3, 1, 1)) for name, values in IMAGENET.items()}
    cameras = {
        name: stats.get(name, {}) | imagenet
        for name, feature in config.policy.recorded_features.items()
        if feature.type is FeatureType.VISUAL and feature.shape[0] == 3
    }
    return stats | cameras
