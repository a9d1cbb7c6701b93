"""Everything a dataset folder contains that its page shows."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from manyhands.data.checking.check import CheckOptions
from manyhands.data.checking.finding import CheckResult
from manyhands.data.checking.result_cache import check_folder
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.location import shared_home
from manyhands.data.quality.dataset_quality import (
    DatasetQuality,
    QualityOptions,
    exclude_flag,
    judge_quality,
)
from manyhands.data.quality.episode_quality import EpisodeQuality
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import DatasetMeta, read_dataset_meta

CHECK_S = 120.0  # A page of a large dataset is worth minutes, not hours
QUALITY_S = 120.0

Progress = Callable[[int, int], None]  # Called with what is done and the total
Bar = Callable[[str], AbstractContextManager[Progress]]  # Shows the progress of what it names


@dataclass(frozen=True)
class DatasetFiles:
    """A dataset, what its check found, and how good its episodes are."""

    label: str
    root: Path
    meta: DatasetMeta
    check: CheckResult | None  # None if it took too long
    numbers: Dataset | None  # Episodes whose tables can be read, without images
    quality: DatasetQuality | None  # None if they cannot be judged
    fault: str = ""  # Why there are no numbers

    @cached_property
    def judged(self) -> dict[int, EpisodeQuality]:
        """The quality of episodes by their number."""
        return {each.episode: each for each in self.quality.episodes} if self.quality else {}

    @property
    def bad_episodes(self) -> list[int]:
        """Episodes that cannot be read completely."""
        return self.check.bad_episodes if self.check else []

    @property
    def excluded(self) -> list[int]:
        """Episodes that training is better off without."""
        poor = self.quality.exclude_episodes if self.quality else []
        return sorted({*self.bad_episodes, *poor})

    @property
    def exclude_flag(self) -> str:
        """The flag of training that excludes them; empty if nothing, or nothing else, is there."""
        is_everything = len(self.excluded) == len(self.meta.episodes)
        return "" if is_everything else exclude_flag(self.excluded)


class _TimeIsUp(Exception):
    """A check that takes longer than a page is worth."""


def read_dataset_files(root: Path, label: str, bar: Bar) -> DatasetFiles:
    """Check a dataset quickly and judge its episodes; a dataset error if it has no metadata."""
    meta = read_dataset_meta(root)
    check = _checked(root, bar)
    unreadable = _without_numbers(check, meta) if check else set()
    readable = [each for each in range(len(meta.episodes)) if each not in unreadable]
    if not readable:
        return DatasetFiles(label, root, meta, check, None, None, "no episode can be read")
    numbers, quality = None, None
    try:
        source = Source(root, meta, select_episodes(meta.episodes, readable))
        numbers = _numbers(source)
        with bar("sampling frames") as on_progress:
            options = QualityOptions(on_progress=on_progress, home=shared_home(), max_s=QUALITY_S)
            quality = judge_quality(source, options)
    except DatasetError as error:
        return DatasetFiles(label, root, meta, check, numbers, quality, str(error))
    return DatasetFiles(label, root, meta, check, numbers, quality)


def _without_numbers(check: CheckResult, meta: DatasetMeta) -> set[int | None]:
    """Episodes with something bad in more than their images."""
    cameras = {key for key, feature in meta.info.features.items() if feature.is_camera}
    bad = (each for each in check.findings if each.severity == "bad")
    return {each.episode for each in bad if each.key not in cameras}


def _checked(root: Path, bar: Bar) -> CheckResult | None:
    end = time.monotonic() + CHECK_S
    with bar("checking frames") as on_progress:

        def go_on(done: int, total: int) -> None:
            on_progress(done, total)
            if time.monotonic() > end and done < total:
                raise _TimeIsUp

        checking = CheckOptions(thoroughness="quick", on_progress=go_on)
        try:
            return check_folder(root, None, shared_home(), checking)
        except _TimeIsUp:
            return None


def _numbers(source: Source) -> Dataset:
    features = source.meta.info.features
    skip = [key for key, feature in features.items() if not feature.is_number]
    episodes = source.selection.episodes.tolist()
    return open_dataset(None, source.root, episodes, {}, ReadOptions(skip=skip))
