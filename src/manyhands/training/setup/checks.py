"""Acts on dataset checks: rejects a dataset, or excludes and lists bad samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from manyhands.config.policies.base import PolicyConfig, visual_features
from manyhands.config.train import DatasetConfig
from manyhands.cores import num_cores
from manyhands.data.checking.check import CheckOptions
from manyhands.data.checking.exclusions import bad_rows, unusable_episodes
from manyhands.data.checking.faults import episode_ranges, faults_of
from manyhands.data.checking.finding import CheckResult, Thoroughness
from manyhands.data.checking.rejection import rejection
from manyhands.data.checking.remedies import Avoidance, doctor_command, limit_flag
from manyhands.data.checking.result_cache import check_once
from manyhands.data.dataset import Dataset
from manyhands.data.dataset_selection import TrainDataset
from manyhands.data.episodes import Source
from manyhands.data.location import shared_home
from manyhands.data.order import SampleOrder
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.observe.console import progress_bar
from manyhands.training.setup.features import input_flag

PIXELS_PER_S = 15e6  # Approximate decoding speed of a core, to estimate the time of a full check.
AFFORDABLE_S = 30.0  # Time limit of a full check that runs by default.
MAX_WARNINGS = 3


@dataclass(frozen=True)
class Checked:
    """A dataset of a run, without its unusable episodes."""

    part: TrainDataset
    result: CheckResult | None  # None if checks are off.
    lost: np.ndarray  # Episodes to train on that have no usable frame.

    def bad_rows(self, dataset: Dataset) -> np.ndarray | None:
        """Rows of the opened dataset that no sample may start at."""
        return None if self.result is None else bad_rows(self.result, dataset)

    def exclusion(self, order: SampleOrder, num_dropped_frames: int) -> "Exclusion":
        """What the run does without, given the order of its samples."""
        lengths = self.part.meta.episodes.lengths[self.lost] - num_dropped_frames
        unlisted = (0, 0)
        if self.result is not None:
            unlisted = (self.result.num_lost_episodes, self.result.num_lost_frames)
        return Exclusion(
            num_bad=order.num_bad + int(np.maximum(lengths, 0).sum()) + unlisted[1],
            num_good=order.num_samples,
            num_lost_episodes=len(self.lost) + unlisted[0],
            num_episodes=len(self.part.training) + len(self.lost) + unlisted[0],
        )


@dataclass(frozen=True)
class Exclusion:
    """Samples and episodes that a run does without."""

    num_bad: int  # Samples, those of lost episodes included.
    num_good: int
    num_lost_episodes: int
    num_episodes: int  # With those that are lost.

    @property
    def share(self) -> float:
        """Fraction of samples that are excluded."""
        return self.num_bad / (self.num_bad + self.num_good)

    @property
    def text(self) -> str:
        """Numbers and shares of samples and episodes."""
        samples = f"{self.num_bad:,} of {self.num_bad + self.num_good:,} samples ({self.share:.1%})"
        lost, total = self.num_lost_episodes, self.num_episodes
        episodes = f"{lost:,} of {total:,} episodes ({lost / total:.1%}) completely"
        return f"{samples}, {episodes}"


def check_dataset(
    part: TrainDataset, reading: ReadOptions, config: DatasetConfig, policy: PolicyConfig
) -> Checked:
    """Check the features that a run reads, and handle bad samples as configured."""
    nothing = np.empty(0, np.int64)
    if config.check == "off":
        return Checked(part, None, nothing)
    home = reading.home or shared_home()
    with progress_bar("checking the dataset") as on_progress:
        checking = replace(checking_of(part.source, reading, config), on_progress=on_progress)
        result = check_once(part.source, home, checking)
    if result.is_usable:
        return Checked(part, result, nothing)
    if config.on_bad == "fail":
        raise _rejected(result, reading, config, policy)
    lost = unusable_episodes(result, part.source)
    training, held_out = (np.setdiff1d(each, lost) for each in (part.training, part.held_out))
    if training.size == 0:
        raise _rejected(result, reading, config, policy)
    usable = replace(part, training=training, held_out=held_out)
    return Checked(usable, result, np.intersect1d(part.training, lost))


def _rejected(
    result: CheckResult, reading: ReadOptions, config: DatasetConfig, policy: PolicyConfig
) -> DatasetError:
    """The error, with a flag that trains without cameras of which nothing is left."""
    lines = [rejection(result, avoidance_of(config))]
    bad = [finding for finding in result.findings if finding.severity == "bad"]
    unread = {reading.delivered(each.key or "") for each in bad}
    left = {key: each for key, each in policy.input_features.items() if key not in unread}
    has_all = len(result.bad_episodes) == result.num_episodes
    if has_all and left and unread <= {*visual_features(policy)}:
        lines.append(f"Train without {', '.join(sorted(unread))}: {input_flag(left)}")
    return DatasetError("\n".join(lines))


def avoidance_of(config: DatasetConfig) -> Avoidance:
    """The flags that a run has for bad data, without those that are set already."""
    return Avoidance(
        exclude_flag=None if config.mix is not None else "--dataset.exclude_episodes",
        skip_flag=None if config.on_bad == "skip" else "--dataset.on_bad=skip",
        excluded=config.exclude_episodes or (),
        max_bad=config.max_bad,
    )


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
    found: Sequence[Checked], excluded: Sequence[Exclusion], config: DatasetConfig
) -> None:
    """Reject a dataset if more samples would be excluded than configured."""
    for each, own in zip(found, excluded, strict=True):
        if own.share > config.max_bad and each.result is not None:
            raise DatasetError(
                f"{own.text} of {each.part.root} would be excluded, more than "
                f"--dataset.max_bad={config.max_bad}\n"
                f"Allow that: {limit_flag(own.share)}\n"
                f"{rejection(each.result, avoidance_of(config))}"
            )


def exclusions(found: Sequence[Checked]) -> list[str]:
    """All faults that exclude samples."""
    results = [each.result for each in found if each.result is not None]
    return [
        fault.text
        for result in results
        for fault in faults_of(each for each in result.findings if each.severity == "bad")
    ]


def check_notes(found: Sequence[Checked], excluded: Sequence[Exclusion]) -> list[str]:
    """Notes to log: excluded samples, warnings, and datasets that were not checked."""
    notes = []
    for each, own in zip(found, excluded, strict=True):
        if each.result is None:
            notes.append(f"WARNING: {each.part.root} was not checked")
            continue
        if not each.result.is_usable:
            episodes = episode_ranges(each.result.bad_episodes)
            where = f". Faults are in episodes {episodes}" if episodes else ""
            notes.append(f"WARNING: excluded {own.text}{where}")
        faults = faults_of(one for one in each.result.findings if one.severity == "warning")
        notes += [f"WARNING: {fault.text}" for fault in faults[:MAX_WARNINGS]]
        if len(faults) > MAX_WARNINGS:
            more = len(faults) - MAX_WARNINGS
            notes.append(f"WARNING: {more} more; run {doctor_command(each.result.root)}")
    return notes
