"""Columns that every dataset has and that follow from its metadata, for data files without them."""

import numpy as np

from manyhands.data.episodes import Source
from manyhands.lerobot_format import names

DERIVABLE = tuple(names.RESERVED_FEATURES)


def derived_column(source: Source, key: str, frames: np.ndarray) -> np.ndarray | None:
    """Values of a missing column at frames of the dataset; None if they cannot be derived."""
    table = source.meta.episodes
    episodes = table.places(frames)
    match key:
        case names.INDEX:
            return frames
        case names.EPISODE_INDEX:
            return episodes
        case names.FRAME_INDEX:
            return np.asarray(frames - table.from_index[episodes])
        case names.TIMESTAMP:
            seconds = (frames - table.from_index[episodes]) / source.meta.info.fps
            return np.asarray(seconds, np.float32)
        case names.TASK_INDEX:
            return _task_numbers(source, episodes)
    return None


def _task_numbers(source: Source, episodes: np.ndarray) -> np.ndarray | None:
    """The task of each episode that has one; None if an episode has several or an unknown one."""
    tasks, own = source.meta.tasks, source.meta.episodes.tasks
    numbers = {text: number for number, text in reversed([*enumerate(tasks)])}
    only = len(tasks) == 1
    used = np.unique(episodes)
    found = {each: 0 if only else _only_task(own[each], numbers) for each in used.tolist()}
    if any(number is None for number in found.values()):
        return None
    return np.array([found[each] for each in used.tolist()], np.int64)[
        np.searchsorted(used, episodes)
    ]


def _only_task(texts: list[str], numbers: dict[str, int]) -> int | None:
    return numbers.get(texts[0]) if len(texts) == 1 else None
