"""Metadata that contradicts itself and can be read nevertheless, each with what is used instead."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_table import EpisodeTable
from manyhands.lerobot_format.dataset.info import DatasetInfo


@dataclass(frozen=True)
class Oddity:
    """A contradiction in the metadata."""

    file: str
    message: str
    num_lost_episodes: int = 0  # Declared episodes that nothing lists


def count_oddities(info: DatasetInfo, episodes: EpisodeTable, tasks: list[str]) -> Iterator[Oddity]:
    """Counts of `meta/info.json` that differ from what other files list; zero is no count."""
    listed = len(episodes)
    if info.total_episodes not in (0, listed):
        missing = max(info.total_episodes - listed, 0)
        message = f"total_episodes is {info.total_episodes}, but {listed} episodes are listed"
        yield Oddity(names.INFO_FILE, message, missing)
    num_frames = int(episodes.to_index[-1])
    if info.total_frames not in (0, num_frames):
        message = f"total_frames is {info.total_frames}, but the episodes have {num_frames}"
        yield Oddity(names.INFO_FILE, f"{message}; the latter is used")
    # More tasks than counted are harmless: not every tool updates the count.
    if len(tasks) < info.total_tasks:
        message = f"total_tasks is {info.total_tasks}, but {len(tasks)} tasks are listed"
        yield Oddity(names.INFO_FILE, message)
    yield from _split_oddities(info, listed)


def _split_oddities(info: DatasetInfo, listed: int) -> Iterator[Oddity]:
    for name, span in info.splits.items():
        match = re.fullmatch(r"(\d{1,12}):(\d{1,12})", span) if isinstance(span, str) else None
        if match is not None and int(match[2]) > listed:
            message = f"split {name} is {span}, but {listed} episodes are listed"
            yield Oddity(names.INFO_FILE, f"{message}; splits are not used")
