"""Cached vision tokens: a frozen image encoder runs once, training reads its tokens."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch

from manyhands.config.sections.cache import FLAG
from manyhands.config.train import TrainConfig
from manyhands.data.cache.store import FrameStore
from manyhands.data.cache.token_cache import TokenCache, TokenPlan, TokenSpec, plan_token_caches
from manyhands.data.dataset import Dataset
from manyhands.data.loading.stream import BatchSplit, SampleStream
from manyhands.data.mixture import Mixture
from manyhands.data.read_options import ReadOptions
from manyhands.errors import EnvironmentFault
from manyhands.observe.console import OnProgress, progress_bar
from manyhands.os_errors import writing_remedy
from manyhands.parallel.world import World
from manyhands.policies.frozen_encoder import FrozenEncoder
from manyhands.policies.policy import Policy
from manyhands.training.setup.data import (
    TrainingData,
    cache_notes,
    datasets_of,
    loader_options,
    run_cache_options,
)
from manyhands.training.validation import held_out_rows
from manyhands.types import VISION_TOKENS

NUM_ENCODED = 32  # Frames encoded at a time.


@dataclass(frozen=True)
class FrameSelection:
    """Frames of a dataset whose tokens are needed."""

    dataset: Dataset
    rows: np.ndarray


def with_vision_tokens(
    data: TrainingData, policy: Policy, config: TrainConfig, world: World
) -> TrainingData:
    """Collective. The data with tokens instead of images, if enabled and if they fit."""
    if not config.cache.vision_tokens:
        return data
    encoder = FrozenEncoder(policy)
    plan = plan_cache(data, encoder, config, world)
    # All processes read the same way, even if one machine has less disk space.
    refused = [each.reason for each in world.gather(plan) if each.where == "off"]
    if refused:
        return replace(data, notes=[*data.notes, f"WARNING: {refused[0]}"])
    caches = plan.opened()
    wanted = [*zip(wanted_frames(data, config), caches.caches, strict=True)]
    filling = TokenEncoding(encoder, config, world, data)
    world.on_every_rank(lambda: filling.fill(wanted))
    world.on_each_machine(caches.make_durable)
    read = [with_tokens(own.dataset, cache) for own, cache in wanted]
    num_trained = len(datasets_of(data.source))
    obsolete = cache_notes(policy.config, data.caches)
    return replace(
        data,
        source=joined_again(data.source, read[:num_trained]),
        held_out=data.held_out and joined_again(data.held_out, read[num_trained:]),
        tokens=caches,
        notes=[
            *(note for note in data.notes if note not in obsolete),
            f"Frame cache: {plan.reason}",
        ],
    )


def plan_cache(
    data: TrainingData, encoder: FrozenEncoder, config: TrainConfig, world: World
) -> TokenPlan:
    """Collective. Plan where to cache tokens, by their identity and the available space."""
    identities = world.on_main(lambda: encoder.identity(world.precision))
    forms = {}
    for camera, shape in encoder.cameras.items():
        with world.autocast():
            example = encoder.stored_tokens(camera, torch.zeros(1, *shape, dtype=torch.uint8))
        forms[camera] = TokenSpec(identities[camera], example.shape[1:], example.dtype)
    datasets = [own.dataset for own in wanted_frames(data, config)]
    sources = [(each.source, each.reading) for each in datasets]
    return plan_token_caches(sources, forms, run_cache_options(config))


def wanted_frames(data: TrainingData, config: TrainConfig) -> list[FrameSelection]:
    """The frames to encode by dataset: training frames, then held-out frames."""
    wanted = by_dataset(data.source, data.order.rows())
    if data.held_out is not None:
        rows = held_out_rows(data.held_out, config.max_eval_samples)
        wanted += by_dataset(data.held_out, rows)
    return wanted


def by_dataset(source: Dataset | Mixture, rows: np.ndarray) -> list[FrameSelection]:
    """Split global rows into the rows of each dataset."""
    if isinstance(source, Dataset):
        return [FrameSelection(source, rows)]
    bounds = zip(source.parts, source.first_rows[:-1], source.first_rows[1:], strict=True)
    return [
        FrameSelection(part, rows[(rows >= first) & (rows < end)] - first)
        for part, first, end in bounds
    ]


def with_tokens(dataset: Dataset, cache: TokenCache) -> Dataset:
    """The same samples, with camera tokens under separate keys."""
    reading = dataset.reading
    names = {reading.delivered(key): key for key in cache.of_camera}
    renamed = {key: name + VISION_TOKENS for name, key in names.items()}
    offsets = {
        name + VISION_TOKENS if name in names else name: each
        for name, each in dataset.windows.items()
    }
    reading = replace(reading, cache=cache, rename_map={**reading.rename_map, **renamed})
    return Dataset(dataset.source, reading, offsets)


def joined_again(source: Dataset | Mixture, parts: Sequence[Dataset]) -> Dataset | Mixture:
    """Join datasets the way the source joined them."""
    return Mixture(parts, ()) if isinstance(source, Mixture) else parts[0]


class TokenEncoding:
    """Computes the tokens that are not cached yet; the ranks of a machine split the work."""

    def __init__(
        self, encoder: FrozenEncoder, config: TrainConfig, world: World, data: TrainingData
    ) -> None:
        self._encoder = encoder
        self._world = world
        self._order = data.order
        self._loading = loader_options(config, world.num_local_ranks, world.device.type == "cuda")

    def fill(self, wanted: Sequence[tuple[FrameSelection, TokenCache]]) -> None:
        """Compute this rank's slice of all missing tokens."""
        missing = [(self._missing(own, cache), cache) for own, cache in wanted]
        total, done = sum(len(own.rows) for own, _ in missing), 0
        with self._progress() as on_progress:
            for own, cache in missing:
                for number in self._filled(own, cache):
                    done += number
                    on_progress(done, total)

    def _progress(self) -> AbstractContextManager[OnProgress]:
        return progress_bar("encoding frames") if self._world.is_main else nullcontext(_no_progress)

    def _missing(self, own: FrameSelection, cache: TokenCache) -> FrameSelection:
        rows = np.array_split(own.rows, self._world.num_local_ranks)[self._world.local_rank]
        frames = own.dataset.source.selection.frames(rows)
        is_kept = [store.are_present(frames) for store in cache.of_camera.values()]
        return FrameSelection(own.dataset, rows[~np.all(is_kept, axis=0)])

    def _filled(self, own: FrameSelection, cache: TokenCache) -> Iterator[int]:
        """Cache tokens batch by batch; yields the number of frames of each."""
        frames = own.dataset.source.selection.frames(own.rows)
        source = Dataset(own.dataset.source, only_cameras(own.dataset), {})
        split = BatchSplit(self._world.rank, self._world.size, NUM_ENCODED * self._world.size)
        stream = SampleStream(source, self._order, split, self._loading, self._world.device)
        first = 0
        for batch in stream.batches_over(own.rows, NUM_ENCODED) if len(own.rows) else ():
            shown = frames[first : first + NUM_ENCODED]
            for key, store in cache.of_camera.items():
                camera = own.dataset.reading.delivered(key)
                with self._world.autocast():
                    tokens = self._encoder.stored_tokens(camera, batch[camera])
                write_tokens(tokens, shown, store)
            first += len(shown)
            yield len(shown)


def write_tokens(tokens: np.ndarray, frames: np.ndarray, store: FrameStore) -> None:
    """Cache the tokens of frames; existing ones stay."""
    try:
        for frame, own in zip(frames.tolist(), tokens, strict=True):
            store.write(frame, store.encode(own))
    except OSError as error:
        remedy = writing_remedy(error, f"Set another --cache.folder, or remove {FLAG}")
        raise EnvironmentFault(
            f"cannot write vision tokens to {store.folder}: {error.strerror}. {remedy}"
        ) from None


def only_cameras(dataset: Dataset) -> ReadOptions:
    """Read only the images of a dataset, each once."""
    features, reading = dataset.info.features, dataset.reading
    others = [key for key, feature in features.items() if not feature.is_camera]
    return replace(reading, cache=None, skip={*reading.skip, *others})


def _no_progress(done: int, total: int) -> None:
    """Ignore progress."""
