"""The datasets of a run, and the episodes it trains on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.config.train import DatasetConfig
from manyhands.data.episodes import Source, select_episodes, split_episodes
from manyhands.data.location import locate_dataset
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import DatasetMeta, read_dataset_meta


@dataclass(frozen=True)
class TrainDataset:
    """One dataset of a run."""

    root: Path
    meta: DatasetMeta
    weight: float
    training: np.ndarray  # Episodes to train on.
    held_out: np.ndarray  # Episodes for the held-out loss.

    @property
    def source(self) -> Source:
        """All episodes that the run reads."""
        chosen = np.concatenate([self.training, self.held_out]).tolist()
        return Source(self.root, self.meta, select_episodes(self.meta.episodes, chosen))

    @property
    def uses_all_episodes(self) -> bool:
        """Whether the run trains on every selected episode."""
        return self.held_out.size == 0


def find_datasets(config: DatasetConfig) -> list[TrainDataset]:
    """The datasets of a run, each with its episodes."""
    if config.mix is None:
        root = locate_dataset(config.repo_id, config.root, config.revision)
        return [_part(root, 1.0, config)]
    return [
        _part(_located(name), weight / sum(config.mix.values()), config)
        for name, weight in config.mix.items()
    ]


def _located(name: str) -> Path:
    """A dataset of a mixture: the folder of that name if there is one, else from the Hub."""
    folder = Path(name).expanduser()
    return locate_dataset(None, folder) if folder.exists() else locate_dataset(name)


def _part(root: Path, weight: float, config: DatasetConfig) -> TrainDataset:
    meta = read_dataset_meta(root)
    chosen = _chosen(meta, config)
    if config.eval_split == 0:
        return TrainDataset(root, meta, weight, chosen, np.empty(0, np.int64))
    first_tasks = [(meta.episodes.tasks[episode] or [""])[0] for episode in chosen]
    return TrainDataset(root, meta, weight, *split_episodes(first_tasks, chosen, config.eval_split))


def _chosen(meta: DatasetMeta, config: DatasetConfig) -> np.ndarray:
    excluded = config.exclude_episodes or []
    unknown = [number for number in excluded if number >= len(meta.episodes)]
    if unknown:
        raise DatasetError(
            f"--dataset.exclude_episodes names {', '.join(map(str, unknown[:8]))}, but the dataset "
            f"has episodes 0 to {len(meta.episodes) - 1}"
        )
    episodes = np.setdiff1d(select_episodes(meta.episodes, config.episodes).episodes, excluded)
    if episodes.size == 0:
        raise DatasetError("--dataset.exclude_episodes leaves no episode to train on")
    return episodes
