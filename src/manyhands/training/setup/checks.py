"""Acts on dataset checks: rejects a dataset, or excludes and lists bad samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from manyhands.config.train import DatasetConfig
from manyhands.cores import num_cores
from manyhands.data.checking.check import CheckOptions
from manyhands.data.checking.exclusions import bad_rows, rejection, unusable_episodes
from manyhands.data.checking.finding import CheckResult, Thoroughness
from manyhands.data.checking.result_cache import check_once
from manyhands.data.dataset import Dataset
from manyhands.data.dataset_selection import TrainDataset
from manyhands.data.episodes import Source
from manyhands.data.location import shared_home
from manyhands.data.order import SampleOrder
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.observe.console import progress_bar

PIXELS_PER_S = 15e6  # Approximate decoding speed of a core, to estimate the time of a full check.
AFFORDABLE_S = 30.0  # Time limit of a full check that runs by default.
MAX_WARNINGS = 3


@dataclass(frozen=True)
class Checked:
    """A dataset of a run, without its unusable episodes."""

    part: TrainDataset
    result: CheckResult | None  # None if checks are off.

    def bad_rows(self, dataset: Dataset) -> np.ndarray | None:
        """Rows of the opened dataset that no sample may start at."""
        return None if self.result is None else bad_rows(self.result, dataset)


def check_dataset(part: TrainDataset, reading: ReadOptions, config: DatasetConfig) -> Checked:
    """Check the features that a run reads, and handle bad samples as configured."""
    if config.check == "off":
        return Checked(part, None)
    home = reading.home or shared_home()
    with progress_bar("checking the dataset") as on_progress:
        checking = replace(checking_of(part.source, reading, config), on_progress=on_progress)
        result = check_once(part.source, home, checking)
    if result.is_usable:
        return Checked(part, result)
    if config.on_bad == "fail":
        raise DatasetError(rejection(result))
    lost = unusable_episodes(result, part.source)
    training, held_out = (np.setdiff1d(each, lost) for each in (part.training, part.held_out))
    if training.size == 0:
        raise DatasetError(rejection(result))
    return Checked(replace(part, training=training, held_out=held_out), result)


def checking_of(source: Source, reading: ReadOptions, config: DatasetConfig) -> CheckOptions:
    """The scope of the check: features to read, and thoroughness."""
    keys = [key for key in source.meta.info.features if key not in reading.skip]
    return CheckOptions(thoroughness=thoroughness_of(source, keys, config.check), keys=keys)


def thoroughness_of(source: Source, keys: Sequence[str], requested: str) -> Thoroughness:
    """As configured; by default full if decoding every image is fast enough, else quick."""
    if requested in ("quick", "full"):
        return "quick" if requested == "quick" else "full"
    features = (source.meta.info.features[key] for key in keys)
    num_pixels = sum(prod(each.channel_first_shape[1:]) for each in features if each.is_camera)
    expected_s = num_pixels * source.selection.num_rows / PIXELS_PER_S / num_cores()
    return "full" if expected_s <= AFFORDABLE_S else "quick"


def check_budget(
    found: Sequence[Checked], orders: Sequence[SampleOrder], config: DatasetConfig
) -> None:
    """Reject a dataset if more samples would be excluded than configured."""
    for each, order in zip(found, orders, strict=True):
        share = order.num_bad / (order.num_bad + order.num_samples)
        if share > config.max_bad and each.result is not None:
            raise DatasetError(
                f"{order.num_bad} samples ({share:.1%} of {each.part.root}) would be excluded, "
                f"more than --dataset.max_bad={config.max_bad}:\n{rejection(each.result)}"
            )


def exclusions(found: Sequence[Checked]) -> list[str]:
    """All faults that exclude samples."""
    results = [each.result for each in found if each.result is not None]
    return [
        finding.text
        for result in results
        for finding in result.findings
        if finding.severity == "bad"
    ]


def check_notes(found: Sequence[Checked], orders: Sequence[SampleOrder]) -> list[str]:
    """Notes to log: excluded samples, warnings, and datasets that were not checked."""
    notes = []
    for each, order in zip(found, orders, strict=True):
        if each.result is None:
            notes.append(f"WARNING: {each.part.root} was not checked")
            continue
        if not each.result.is_usable:
            episodes = ", ".join(map(str, each.result.bad_episodes[:8]))
            notes.append(f"WARNING: {order.num_bad} samples excluded, in episodes {episodes}")
        warnings = [finding for finding in each.result.findings if finding.severity == "warning"]
        notes += [f"WARNING: {finding.text}" for finding in warnings[:MAX_WARNINGS]]
        if len(warnings) > MAX_WARNINGS:
            notes.append(f"WARNING: {len(warnings) - MAX_WARNINGS} more; run manyhands doctor")
    return notes
