"""Datasets to copy episodes from, and the properties of their union."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands import units
from manyhands.data.checking.remedies import Avoidance
from manyhands.data.checking.usable_episodes import SKIP, check_files, without_bad_episodes
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.location import shared_home
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_stats import joined_labels, read_episode_labels
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

SUBTASKS_FILE = "meta/subtasks.parquet"
_FPS_TOLERANCE = 1e-6
_SPARE_BYTES = 1024**2
# Files are as large as before, but for row groups of another size and statistics.
_GROWTH = 1.05


@dataclass(frozen=True)
class EpisodeChoice:
    """Episodes of one dataset."""

    root: Path  # Folder of the dataset, of version 2.0, 2.1 or 3.0
    episodes: Sequence[int] | None = None  # Their numbers, in the order of the copy; None for all
    exclude: Sequence[int] = ()  # Numbers of episodes to exclude
    on_bad: str = "fail"  # With `skip`, episodes with faults are excluded too


@dataclass(frozen=True)
class CopySource:
    """A dataset with its metadata and selected episodes."""

    dataset: Source
    episodes: list[int]
    fps: int
    features: dict[str, Feature]  # As the copy will declare them
    labels: pa.Table  # Labels of the selected episodes by other tools
    note: str  # What was skipped
    subtasks: bytes | None  # The file in which some releases of LeRobot list subtasks

    @property
    def root(self) -> Path:
        """Folder of the dataset."""
        return self.dataset.root

    @property
    def robot_type(self) -> str | None:
        """The robot it was recorded with."""
        return self.dataset.meta.info.robot_type


def open_source(choice: EpisodeChoice) -> CopySource:
    """Read a dataset's metadata and check that the selected episodes exist."""
    meta = read_dataset_meta(choice.root)
    episodes = _chosen(choice, len(meta.episodes))
    empty = [number for number in episodes if meta.episodes.lengths[number] == 0]
    if empty:
        raise DatasetError(
            f"{choice.root}: episode {empty[0]} has no frames. Exclude it: "
            f"--exclude_episodes={empty}"
        )
    fps = meta.info.fps
    if abs(fps - round(fps)) > _FPS_TOLERANCE:
        raise DatasetError(
            f"{choice.root / names.INFO_FILE}: fps is {fps}, but version 3.0 supports integers only"
        )
    dataset, note = _usable(
        Source(choice.root, meta, select_episodes(meta.episodes, episodes)), choice
    )
    left = set(dataset.selection.episodes.tolist())
    episodes = [number for number in episodes if number in left]
    subtasks = choice.root / SUBTASKS_FILE
    return CopySource(
        dataset,
        episodes,
        fps=round(fps),
        features=_declared(choice.root, meta.info.features),
        labels=read_episode_labels(choice.root, meta.info, episodes),
        note=note,
        subtasks=subtasks.read_bytes() if subtasks.is_file() else None,
    )


def check_compatible(sources: Sequence[CopySource], allow_mixed_robots: bool) -> None:
    """Reject datasets that cannot be merged, with all differences."""
    first = sources[0]
    for other in sources[1:]:
        differences = [*_differences(first, other)]
        if first.robot_type != other.robot_type and not allow_mixed_robots:
            differences.append(
                f"robot_type is {first.robot_type} and {other.robot_type} (set "
                "--allow_mixed_robots=true to merge anyway)"
            )
        if differences:
            raise DatasetError(
                f"{first.root} and {other.root} cannot be merged: {'; '.join(differences)}"
            )


def merged_tools(sources: Sequence[CopySource]) -> list[Any] | None:
    """The functions that any of the datasets describes, each once."""
    described = [source.dataset.meta.info.tools for source in sources]
    if all(tools is None for tools in described):
        return None
    together = [tool for tools in described for tool in tools or ()]
    return [tool for place, tool in enumerate(together) if tool not in together[:place]]


def merged_robot(sources: Sequence[CopySource]) -> str | None:
    """The robot of all datasets; None where they have different ones."""
    robots = {source.robot_type for source in sources}
    return robots.pop() if len(robots) == 1 else None


def merged_video_info(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Facts about a camera's videos: null where they disagree; audio is dropped."""
    keys = dict.fromkeys(key for part in parts for key in part if not key.startswith("audio."))
    facts: dict[str, Any] = {}
    for key in keys:
        values = [part.get(key) for part in parts]
        facts[key] = values[0] if all(value == values[0] for value in values) else None
    return facts | {"has_audio": False} if "has_audio" in facts else facts


def check_target(sources: Sequence[CopySource], target: Path) -> None:
    """Reject a target that exists, is inside a source, or lacks disk space."""
    if target.exists() or target.is_symlink():
        raise DatasetError(f"--output={target} already exists. Choose a new folder")
    for source in sources:
        if target.resolve().is_relative_to(source.root.resolve()):
            raise DatasetError(
                f"--output={target} is inside the source dataset {source.root}. Set another "
                "--output"
            )
    needed = _SPARE_BYTES + round(_GROWTH * sum(_chosen_bytes(source) for source in sources))
    place = next(folder for folder in target.absolute().parents if folder.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise DatasetError(
            f"--output={target} needs about {units.num_bytes(needed)}, but {place} has "
            f"{units.num_bytes(free)} free. Free disk space, or set another --output"
        )


def _usable(source: Source, choice: EpisodeChoice) -> tuple[Source, str]:
    """The source without bad episodes, and a note on them, or an error that names all files."""
    keys = tuple(source.meta.info.features)
    avoidance = Avoidance(exclude_flag="--exclude_episodes", excluded=choice.exclude)
    if choice.on_bad == SKIP:
        return without_bad_episodes(source, keys, shared_home(), avoidance)
    check_files(source, keys, avoidance)
    return source, ""


def _chosen(choice: EpisodeChoice, num_episodes: int) -> list[int]:
    named = [*(choice.episodes or ()), *choice.exclude]
    unknown = [number for number in named if not 0 <= number < num_episodes]
    if unknown:
        raise DatasetError(
            f"{choice.root} has no episode {', '.join(map(str, unknown[:8]))}; it has "
            f"episodes 0 to {num_episodes - 1}"
        )
    wanted = range(num_episodes) if choice.episodes is None else choice.episodes
    if len(set(wanted)) < len(wanted):
        raise DatasetError(f"{choice.root}: episodes {list(wanted)} contain duplicates")
    chosen = [number for number in wanted if number not in set(choice.exclude)]
    if not chosen:
        raise DatasetError(f"{choice.root}: no episodes left to copy")
    return chosen


def _declared(root: Path, features: dict[str, Feature]) -> dict[str, Feature]:
    """Features as a recorder declares them; what every dataset has is always the same."""
    absent = [key for key in names.RESERVED_FEATURES if key not in features]
    if absent:
        raise DatasetError(f"{root / names.INFO_FILE}: no feature {', '.join(absent)}")
    reserved = {key: Feature(dtype, (1,)) for key, dtype in names.RESERVED_FEATURES.items()}
    return {key: reserved.get(key) or _with_facts(feature) for key, feature in features.items()}


def _with_facts(feature: Feature) -> Feature:
    """A feature with its depth metadata in one form, so that datasets can be compared."""
    facts = merged_video_info([feature.info])
    if feature.is_camera and feature.is_depth:
        facts.pop("video.is_depth_map", None)
        facts["is_depth_map"] = True
        if feature.dtype == names.VIDEO:
            scale = feature.depth_scale
            facts |= {"video.depth_min": scale.min, "video.depth_max": scale.max}
            facts |= {"video.shift": scale.shift, "video.use_log": scale.use_log}
    return replace(feature, info=facts)


def _differences(one: CopySource, other: CopySource) -> Iterator[str]:
    if one.fps != other.fps:
        yield f"fps is {one.fps} and {other.fps}"
    if one.subtasks != other.subtasks:
        yield f"subtask numbers differ in {SUBTASKS_FILE}"
    try:
        joined_labels([one.labels, other.labels])
    except ValueError as error:
        yield str(error)
    for key in dict.fromkeys([*one.features, *other.features]):
        if key not in one.features or key not in other.features:
            yield f"only {(one if key in one.features else other).root} has {key}"
            continue
        first, second = (_compared(each.features[key]) for each in (one, other))
        for name in first.keys() | second.keys():
            if first.get(name) != second.get(name):
                yield f"{key} has {name} {first.get(name)} and {second.get(name)}"


def _compared(feature: Feature) -> dict[str, Any]:
    """Properties that must be equal to merge; a camera's axes may have other names."""
    if not feature.is_camera:
        return {"dtype": feature.dtype, "shape": list(feature.shape), "names": feature.names}
    kind = {"dtype": feature.dtype, "channels, height, width": list(feature.channel_first_shape)}
    if not feature.is_depth:
        return kind
    return kind | {"depth unit": feature.depth_unit, "depth scale": feature.depth_scale}


def _chosen_bytes(source: CopySource) -> float:
    table, total = source.dataset.meta.episodes, 0.0
    for files in (table.data_files, *table.video_files.values()):
        in_file = np.bincount(files.of_episode, weights=table.lengths, minlength=len(files.paths))
        paths = [source.root / path for path in files.paths]
        sizes = np.array([path.stat().st_size if path.is_file() else 0 for path in paths])
        of_episode = (sizes / np.maximum(in_file, 1))[files.of_episode] * table.lengths
        total += float(of_episode[source.episodes].sum())
    return total
