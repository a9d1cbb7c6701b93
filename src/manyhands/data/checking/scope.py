"""What each check looked at, in words, with true counts."""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from manyhands.data.checking.coverage import Coverage, Frames, total
from manyhands.data.checking.finding import Check, Finding, counted
from manyhands.data.episodes import Source
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_table import FileColumn

_ROWS = (Check.NUMBERING,)
_OF_ROWS = {
    Check.COLUMNS: _ROWS,
    Check.NUMBERING: _ROWS,
    Check.NUMBERS: _ROWS,
    Check.TIMESTAMPS: (Check.TIMESTAMPS,),
    Check.TASKS: (Check.TASKS,),
}
_CAMERAS = {Check.VIDEOS: names.VIDEO, Check.IMAGES: names.IMAGE}


class Scope:
    """The scope of a check of chosen episodes and features."""

    def __init__(self, source: Source, keys: Collection[str], coverage: Coverage) -> None:
        self._source = source
        self._features = {key: source.meta.info.features[key] for key in keys}
        self._coverage = coverage

    def frames(self, check: Check) -> Frames | None:
        """The frames it was about and those it saw; None for checks that are not about frames."""
        if check in _OF_ROWS:
            return total(self._coverage, _OF_ROWS[check])
        if check in _CAMERAS:
            return total(self._coverage, self._cameras(_CAMERAS[check]))
        return None

    def incomplete(self) -> tuple[str, ...]:
        """Checks that could not look at every frame."""
        frames = {check: self.frames(check) for check in Check}
        return tuple(each for each, seen in frames.items() if seen and seen.seen < seen.wanted)

    def texts(self, findings: Iterable[Finding], is_full: bool) -> dict[str, str]:
        """By check; those that saw nothing are absent."""
        return dict(self._texts({*findings}, is_full))

    def _texts(self, findings: Collection[Finding], is_full: bool) -> Iterator[tuple[str, str]]:
        info, selection = self._source.meta.info, self._source.selection
        yield Check.METADATA, f"{info.codebase_version}, {counted(len(info.features), 'feature')}"
        frames = counted(selection.num_rows, "frame")
        yield Check.EPISODES, f"{counted(len(selection.episodes), 'episode')}, {frames}"
        yield Check.FILES, self._files(findings)
        for check in (Check.COLUMNS, Check.NUMBERING, Check.TIMESTAMPS, Check.TASKS, Check.NUMBERS):
            seen = self.frames(check)
            if seen is not None and seen.seen:
                yield check, self._rows(check, seen)
        described = [
            key for key, each in self._features.items() if each.is_number or each.is_camera
        ]
        own = [key for key in described if key not in names.RESERVED_FEATURES]
        yield Check.STATISTICS, counted(len(own), "feature")
        for check in _CAMERAS:
            text = self._images(check, is_full)
            if text is not None:
                yield check, text

    def _rows(self, check: Check, seen: Frames) -> str:
        numbers = [key for key, feature in self._features.items() if feature.is_number]
        stored = [key for key, feature in self._features.items() if feature.dtype != names.VIDEO]
        what = {
            Check.COLUMNS: counted(len(stored), "column"),
            Check.NUMBERS: counted(len(numbers), "column"),
            Check.TASKS: counted(len(self._source.meta.tasks), "task"),
        }.get(check)
        if what is None:
            return _share(seen)
        return what if seen.seen == seen.wanted else f"{what} in {_share(seen)}"

    def _files(self, findings: Collection[Finding]) -> str:
        unusable = {each.file for each in findings if each.check == Check.FILES}
        table = self._source.meta.episodes
        videos = [table.video_files[key] for key in self._cameras(names.VIDEO)]
        parts = [self._usable([table.data_files], unusable, "data file")]
        if videos:
            parts.append(self._usable(videos, unusable, "video file"))
        return ", ".join(parts)

    def _usable(self, columns: list[FileColumn], unusable: set[str | None], noun: str) -> str:
        chosen = self._source.selection.episodes
        paths = {
            files.paths[file] for files in columns for file in np.unique(files.of_episode[chosen])
        }
        num_usable = len(paths - unusable)
        everything = counted(len(paths), noun)
        return everything if num_usable == len(paths) else f"{num_usable:,} of {everything}"

    def _cameras(self, kind: str) -> list[str]:
        return [key for key, feature in self._features.items() if feature.dtype == kind]

    def _images(self, check: Check, is_full: bool) -> str | None:
        cameras, seen = self._cameras(_CAMERAS[check]), self.frames(check)
        if not cameras:
            return "none"
        if seen is None or not seen.seen:
            return None
        per = "file" if check is Check.VIDEOS else "episode"
        ends = "" if is_full else f", the first and last of each {per}"
        return f"{counted(len(cameras), 'camera')}, {_share(seen)}{ends}"


def _share(frames: Frames) -> str:
    text = counted(frames.wanted, "frame")
    return text if frames.seen == frames.wanted else f"{frames.seen:,} of {text}"
