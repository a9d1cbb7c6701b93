"""The complete `meta` folder of a dataset, and the policy features derived from it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset import version2
from manyhands.lerobot_format.dataset.episode_table import EpisodeTable
from manyhands.lerobot_format.dataset.episodes import read_episodes
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.file_condition import Condition, file_condition
from manyhands.lerobot_format.dataset.info import DatasetInfo, read_settled_info
from manyhands.lerobot_format.dataset.oddities import Oddity, count_oddities
from manyhands.lerobot_format.dataset.repairing import contradiction_remedy
from manyhands.lerobot_format.dataset.statistics import parse_stats
from manyhands.lerobot_format.dataset.tables import is_there, naming_file, write_json_object
from manyhands.lerobot_format.dataset.tasks import read_tasks
from manyhands.lerobot_format.dataset.unusable_file import UnusableFile, check_file
from manyhands.lerobot_format.files import read_json
from manyhands.types import Stats


@dataclass(frozen=True)
class DatasetMeta:
    """Metadata of a dataset, without its frames."""

    info: DatasetInfo  # With its totals as they are counted here
    episodes: EpisodeTable
    tasks: list[str]  # Texts by task number
    stats: Stats
    oddities: tuple[Oddity, ...] = ()  # What the metadata contradicts itself in


def read_dataset_meta(root: Path) -> DatasetMeta:
    """Read the metadata of a dataset of version 2.0, 2.1 or 3."""
    info, notes = read_settled_info(root)
    is_old = info.major_version == 2
    episodes = version2.read_episodes(root, info) if is_old else read_episodes(root, info)
    tasks, missing = _listed_tasks(root, is_old, episodes)
    counted = replace(
        info,
        total_episodes=len(episodes),
        total_frames=int(episodes.to_index[-1]),
        total_tasks=len(tasks),
    )
    oddities = [Oddity(names.INFO_FILE, note) for note in notes]
    oddities += [*missing, *count_oddities(info, episodes, tasks)]
    return DatasetMeta(counted, episodes, tasks, _stats(root, counted), tuple(oddities))


_REPLACEABLE = (Condition.MISSING, Condition.EMPTY)


def _listed_tasks(
    root: Path, is_old: bool, episodes: EpisodeTable
) -> tuple[list[str], list[Oddity]]:
    """Texts by task number: those of the file, else those the episodes name, in their order."""
    file = names.TASK_LINES_FILE if is_old else names.TASKS_FILE
    found, tasks = file_condition(root / file), list[str]()
    if found.condition not in _REPLACEABLE:
        tasks = version2.read_tasks(root) if is_old else read_tasks(root)
    if tasks:
        return tasks, []
    named = list(dict.fromkeys(task for own in episodes.tasks for task in own))
    use = "the tasks of the episodes are used" if named else "every task has an empty text"
    return named or [""], [Oddity(file, f"{found.cause or 'lists no task'}; {use}")]


def _stats(root: Path, info: DatasetInfo) -> Stats:
    file = root / names.STATS_FILE
    if info.major_version == 2 and not is_there(file):
        file = root / names.EPISODE_STATS_LINES_FILE
    if not is_there(file):
        return {}
    try:
        if file.suffix == ".jsonl":
            return version2.read_stats(root, info)
        return read_stats(root, info.features)
    except UnusableFile as error:
        remedy = contradiction_remedy(root, file)
        raise DatasetError(f"{error}\n{remedy}") from None


def read_stats(root: Path, features: Mapping[str, Feature] | None = None) -> Stats:
    """Read the statistics of the dataset, validated; empty if none are saved."""
    path = root / names.STATS_FILE
    if not is_there(path):
        return {}
    check_file(path)
    document = read_json(path, DatasetError)
    with naming_file(path):
        return parse_stats(document, features or {})


def write_stats(root: Path, stats: Stats) -> None:
    """Write statistics as nested lists."""
    document = {
        feature: {name: value.tolist() for name, value in values.items()}
        for feature, values in stats.items()
    }
    write_json_object(root / names.STATS_FILE, document)


def policy_features(
    features: Mapping[str, Feature],
) -> tuple[dict[str, PolicyFeature], dict[str, PolicyFeature]]:
    """Inputs and outputs of a policy that uses all features of a dataset."""
    typed = {key: _feature_type(key, feature) for key, feature in features.items()}
    known = {
        key: PolicyFeature(kind, features[key].channel_first_shape)
        for key, kind in typed.items()
        if kind is not None
    }
    inputs = {key: each for key, each in known.items() if each.type is not FeatureType.ACTION}
    outputs = {key: each for key, each in known.items() if each.type is FeatureType.ACTION}
    return inputs, outputs


def _feature_type(key: str, feature: Feature) -> FeatureType | None:
    if feature.is_camera:
        return FeatureType.VISUAL
    if not feature.is_number:
        return None
    if key == names.ENVIRONMENT_STATE:
        return FeatureType.ENV
    if key.startswith(names.OBSERVATION):
        return FeatureType.STATE
    if key.startswith(names.ACTION):
        return FeatureType.ACTION
    return None
