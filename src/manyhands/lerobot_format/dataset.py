"""The `meta` folder of a dataset, whole."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import DatasetInfo, read_info
from manyhands.lerobot_format.episodes import EpisodeTable, read_episodes
from manyhands.lerobot_format.tables import read_json_object, write_json_object
from manyhands.lerobot_format.tasks import read_tasks
from manyhands.types import Stats


@dataclass(frozen=True)
class DatasetMeta:
    """Everything known about a dataset without reading a frame."""

    info: DatasetInfo
    episodes: EpisodeTable
    tasks: list[str]
    """Texts by task number."""
    stats: Stats


def read_dataset_meta(root: Path) -> DatasetMeta:
    """The metadata of the dataset in a folder."""
    info = read_info(root)
    return DatasetMeta(info, read_episodes(root, info), read_tasks(root), read_stats(root))


def read_stats(root: Path) -> Stats:
    """Statistics of the whole dataset; empty where none were saved."""
    path = root / names.STATS_FILE
    if not path.exists():
        return {}
    try:
        return {
            feature: {name: _array(value) for name, value in stats.items()}
            for feature, stats in read_json_object(path).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise DatasetError(f"{path} holds something else than statistics: {error}") from None


def write_stats(root: Path, stats: Stats) -> None:
    """Write statistics as nested lists."""
    document = {
        feature: {name: value.tolist() for name, value in values.items()}
        for feature, values in stats.items()
    }
    write_json_object(root / names.STATS_FILE, document)


def _array(value: object) -> np.ndarray:
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind not in "if":
        raise ValueError(f"{value!r:.60} is no number")
    return array
