"""Write a clean copy of a damaged dataset: rebuild what can be, drop and name the rest."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from manyhands.data.images.embedded import image_bytes
from manyhands.data.images.formats import ImageFormat, checked, image_format
from manyhands.data.images.image_files import decode_image
from manyhands.data.images.packets import Clip
from manyhands.data.repairing.found_clips import FoundClips, first_facts
from manyhands.data.repairing.found_features import FeatureSources, found_features
from manyhands.data.repairing.found_files import FoundFiles, find_files
from manyhands.data.repairing.found_metadata import FoundMetadata, read_metadata
from manyhands.data.repairing.found_rows import FoundRows, found_rows
from manyhands.data.repairing.frame_rate import found_fps
from manyhands.data.repairing.index_columns import EpisodePlace, index_columns, note_faults
from manyhands.data.repairing.report import RepairReport
from manyhands.data.statistics import image_stats, number_stats, sampled_frames, subsampled
from manyhands.data.writing.copy_clips import column_numbers
from manyhands.data.writing.copy_rows import laid_out
from manyhands.data.writing.dataset_folder import DatasetFolder
from manyhands.data.writing.episode_folder import check_new
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.data_files import described_table
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.unusable_file import UnusableFile
from manyhands.types import Stats

Progress = Callable[[int, int], None]  # Called with the number of episodes repaired and of all
UNKNOWN_TASK = "unknown task"


def repair_dataset(
    root: Path, target: Path, on_progress: Progress = lambda done, total: None
) -> RepairReport:
    """Repair a dataset of version 2.0, 2.1 or 3.0 into a new one of version 3.0."""
    start = time.monotonic()
    _check_target(root, target)
    report = RepairReport()
    repairer = _Repairer(root, target, report)
    try:
        repairer.repair(on_progress)
    finally:
        repairer.folder.discard()
    report.num_episodes = repairer.folder.num_episodes
    report.num_frames = repairer.folder.num_frames
    report.wall_s = time.monotonic() - start
    return report


def _check_target(root: Path, target: Path) -> None:
    check_new(target)
    if target.resolve().is_relative_to(root.resolve()):
        raise DatasetError(f"{target} is inside the dataset {root}. Set another --output")


class _Repairer:
    def __init__(self, root: Path, target: Path, report: RepairReport) -> None:
        self._report = report
        self._meta: FoundMetadata = read_metadata(root, report)
        self._files: FoundFiles = find_files(root, report)
        self._rows = self._open_rows(root)
        videos = first_facts(self._files.videos)
        info = self._meta.info
        sources = FeatureSources(self._first.rows, videos)
        self._features = found_features(info, sources, report)
        rates = [facts.rate for facts in videos.values()]
        self._fps = found_fps(info, self._first.rows, rates, report)
        self._clips = {
            key: FoundClips(files, _stored_form(self._features[key]))
            for key, files in self._files.videos.items()
        }
        self.folder = self._new_folder(target)
        self._num_found_frames = 0

    def repair(self, on_progress: Progress) -> None:
        """Repair every episode, then the totals."""
        seen: set[int] = set(self._report.dropped_episodes)
        for found in self._rows:
            seen.add(found.number)
            self._repair_episode(found)
            on_progress(len(seen), max(len(seen), len(self._meta.episodes)))
        unseen = sorted(self._meta.episodes.keys() - seen)
        if unseen:
            self._report.drop("data/", "no file has rows of the episode", unseen)
        for clips in self._clips.values():
            clips.close()
        if not self.folder.num_episodes:
            faults = [f"{each.where} {each.fault}" for each in self._report.repairs]
            raise DatasetError(f"no episode can be repaired: {'; '.join(faults[:4])}")
        self._note_totals()
        self.folder.finish()

    def _open_rows(self, root: Path) -> Iterator[FoundRows]:
        rows = found_rows(self._files.data, self._meta, self._report)
        first = next(rows, None)
        if first is None:
            faults = [f"{each.where} {each.fault}" for each in self._report.repairs]
            raise DatasetError(
                f"{root} has no readable data file: {'; '.join(faults[:4]) or 'none was found'}"
            )
        self._first = first
        return chain([first], rows)

    def _new_folder(self, target: Path) -> DatasetFolder:
        info = self._meta.info
        reserved = {key: Feature(dtype, (1,)) for key, dtype in names.RESERVED_FEATURES.items()}
        own = {
            key: replace(each, info=each.info | {"video.fps": self._fps})
            if each.dtype == names.VIDEO
            else each
            for key, each in self._features.items()
        }
        robot, tools = info.get("robot_type"), info.get("tools")
        robot = robot if isinstance(robot, str) else None
        folder = DatasetFolder(target, self._fps, own | reserved, robot)
        folder.info = replace(folder.info, tools=tools if isinstance(tools, list) else None)
        return folder

    def _repair_episode(self, found: FoundRows) -> None:
        report, num_rows = self._report, found.rows.num_rows
        place = EpisodePlace(found.number, self._num_found_frames)
        self._num_found_frames += num_rows
        listed = self._meta.episodes.get(found.number)
        if listed is not None and listed.length not in (None, num_rows):
            fault = f"length {listed.length}, but its rows are {num_rows}"
            report.add(names.EPISODES_FOLDER, fault, "counted", [found.number])
        try:
            columns = self._columns(found.rows)
            clips, pictures = self._camera_clips(found.number, num_rows)
            stats = self._stats(columns, pictures)
        except UnusableFile as error:
            report.drop("/".join(error.path.parts[-3:]), error.cause, [found.number])
            return
        except DatasetError as error:
            report.drop(f"episode {found.number}", str(error), [found.number])
            return
        texts = self._task_texts(found)
        numbers = np.array([self.folder.task_number(text) for text in texts])
        note_faults(
            found.rows, index_columns(num_rows, place, self._fps, numbers), found.number, report
        )
        after = EpisodePlace(self.folder.num_episodes, self.folder.num_frames)
        rebuilt = index_columns(num_rows, after, self._fps, numbers)
        types = names.RESERVED_FEATURES
        columns |= {key: pa.array(each.astype(types[key])) for key, each in rebuilt.items()}
        stats |= {key: number_stats(values) for key, values in rebuilt.items()}
        table = described_table(columns, self.folder.info.features)
        self.folder.add(table, clips, list(dict.fromkeys(texts)), stats)

    def _columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for key, feature in self._features.items():
            if feature.dtype == names.VIDEO:
                continue
            if key not in rows.column_names:
                raise DatasetError(f"column {key} is missing")
            try:
                columns[key] = laid_out(rows[key].combine_chunks(), feature)
            except (ValueError, pa.ArrowException) as error:
                raise DatasetError(f"column {key}: {error}") from None
        return columns

    def _camera_clips(
        self, number: int, num_rows: int
    ) -> tuple[dict[str, Clip], dict[str, list[np.ndarray]]]:
        """The clips of an episode, and the images that its statistics use."""
        clips: dict[str, Clip] = {}
        pictures: dict[str, list[np.ndarray]] = {}
        listed = self._meta.episodes.get(number)
        for key, source in self._clips.items():
            placed = listed.videos.get(key) if listed is not None else None
            path, first = source.place(number, num_rows, placed)
            clips[key] = source.clip(path, first, num_rows)
            pictures[key] = source.pictures(path, first + sampled_frames(num_rows))
        return clips, pictures

    def _stats(self, columns: dict[str, pa.Array], pictures: dict[str, list[np.ndarray]]) -> Stats:
        stats: Stats = {}
        for key, feature in self._features.items():
            if feature.is_number:
                stats[key] = number_stats(column_numbers(columns[key], feature.shape))
            elif feature.is_camera:
                images = pictures.get(key) or _stored_images(key, columns[key], feature)
                stats[key] = image_stats(images, feature.is_depth)
        return stats

    def _task_texts(self, found: FoundRows) -> list[str]:
        listed = self._meta.episodes.get(found.number)
        usual = listed.tasks[0] if listed is not None and listed.tasks else UNKNOWN_TASK
        numbers: list[object] = [None] * found.rows.num_rows
        if names.TASK_INDEX in found.rows.column_names:
            numbers = found.rows[names.TASK_INDEX].to_pylist()
        texts = [self._meta.tasks.get(each) if isinstance(each, int) else None for each in numbers]
        if None in texts:
            fault = "a task number has no text"
            self._report.add("tasks", fault, f"set to {usual!r}", [found.number])
        return [usual if text is None else text for text in texts]

    def _note_totals(self) -> None:
        info = self._meta.info
        version = info.get("codebase_version")
        if version != names.CODEBASE_VERSION:
            self._report.add(names.INFO_FILE, f"format {version}", f"{names.CODEBASE_VERSION}")
        for key, actual in (
            ("total_episodes", self.folder.num_episodes),
            ("total_frames", self.folder.num_frames),
        ):
            if info.get(key) != actual:
                self._report.add(names.INFO_FILE, f"{key} is {info.get(key)}", f"{actual}")


def _stored_form(feature: Feature) -> ImageFormat:
    """The form of images with distances in the unit they were recorded in."""
    return image_format(feature, depth_unit=feature.depth_unit or "mm")


def _stored_images(key: str, column: pa.Array, feature: Feature) -> list[np.ndarray]:
    """The images that statistics use; the others are decoded too, to see that they can be."""
    form = _stored_form(feature)
    wanted, images = set(sampled_frames(len(column)).tolist()), []
    for row in range(len(column)):
        try:
            pixels = decode_image(image_bytes(column[row].as_py()) or b"", form.stored_pixels)
        except ValueError as error:
            raise DatasetError(f"{key}: the image of frame {row} is damaged: {error}") from None
        image = checked(form.delivered(pixels, is_video=False), form, key)
        images += [subsampled(image.transpose(1, 2, 0)).copy()] if row in wanted else []
    return images
