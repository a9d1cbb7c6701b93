"""Finds non-finite values by reading the samples of a step again.

The order of data depends on the position alone, so the samples of any step can be read again.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from manyhands.data.batches import read_batch
from manyhands.data.loading.stream import SampleStream
from manyhands.data.mixture import DATASET_INDEX
from manyhands.lerobot_format import names
from manyhands.parallel.world import World
from manyhands.types import Batch

MAX_LISTED = 3

Windows = Mapping[str, Sequence[int]]
"""Frame offsets of the features that a policy reads or predicts."""


class NonFiniteValue(NamedTuple):
    """A non-finite value."""

    row: int  # Row of the sample in the dataset.
    episode: int
    frame: int  # Position of the value in the episode.
    feature: str
    dataset: int | None = None  # Index of the dataset, where there are several.

    def __str__(self) -> str:
        where = "" if self.dataset is None else f" of dataset {self.dataset}"
        return (
            f"{self.feature} of episode {self.episode}, frame {self.frame}{where} "
            f"(sample row {self.row})"
        )


class StepSamples(NamedTuple):
    """The samples of a step and their non-finite values."""

    rows: list[int]  # Dataset rows of the global batch.
    values: list[NonFiniteValue]


class SampleInspector:
    """Reads the samples of past steps again."""

    def __init__(self, stream: SampleStream, windows: Windows, world: World) -> None:
        self._stream = stream
        self._windows = windows
        self._world = world

    def inspect(self, position: int) -> StepSamples:
        """Collective. The evidence on the step whose samples start at a position."""
        batch = read_batch(self._stream.source, self._stream.rows_at(position))
        rows = batch[names.INDEX].flatten().tolist()
        parts = self._world.gather(StepSamples(rows, nonfinite_values(batch, self._windows)))
        return StepSamples(
            [row for part in parts for row in part.rows],
            [value for part in parts for value in part.values],
        )


def nonfinite_values(batch: Batch, windows: Windows) -> list[NonFiniteValue]:
    """Non-finite values of a batch, in the order of its samples."""
    found = []
    for feature, offsets in windows.items():
        values = batch.get(feature)
        # A batch may have vision tokens instead of the images of a camera.
        if values is not None and values.is_floating_point():
            # In the precision of training, by sample and frame.
            finite = values.float().isfinite().reshape(len(values), len(offsets), -1)
            seen = ~finite.all(dim=-1)
            seen &= ~batch.get(feature + names.PAD_SUFFIX, torch.zeros_like(seen))
            found += [
                (sample, feature, offsets[place]) for sample, place in seen.nonzero().tolist()
            ]
    return [_nonfinite_value(batch, *each) for each in sorted(found)]


def _nonfinite_value(batch: Batch, sample: int, feature: str, offset: int) -> NonFiniteValue:
    row, episode, frame = (
        int(batch[key].flatten()[sample])
        for key in (names.INDEX, names.EPISODE_INDEX, names.FRAME_INDEX)
    )
    dataset = int(batch[DATASET_INDEX][sample]) if DATASET_INDEX in batch else None
    return NonFiniteValue(row, episode, frame + offset, feature, dataset)


def describe(evidence: StepSamples) -> str:
    """A short summary of the non-finite values."""
    values = evidence.values
    if not values:
        return f"all values of its {len(evidence.rows)} samples are finite"
    # Several samples may contain the same value.
    first_of_each = {each._replace(row=0): each for each in reversed(values)}
    listed = [str(each) for each in reversed(first_of_each.values())]
    more = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    return f"non-finite input: {'; '.join(listed[:MAX_LISTED])}{more}"
