"""Check a dataset: metadata, rows, statistics and images."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from manyhands.cores import num_cores
from manyhands.data.checking.cameras import Camera, ImageFile, VideoFile
from manyhands.data.checking.file_ranges import EpisodeFile, EpisodeRange
from manyhands.data.checking.finding import (
    CHECKS,
    Check,
    CheckResult,
    Finding,
    Thoroughness,
)
from manyhands.data.checking.jobs import CheckedFile, Report, gathered, jobs_for
from manyhands.data.checking.rows import RowFile, RowRules
from manyhands.data.checking.scope import Scope
from manyhands.data.checking.statistics import check_constants, check_statistics
from manyhands.data.checking.worker_pool import run_jobs
from manyhands.data.derived_columns import DERIVABLE, derived_column
from manyhands.data.episodes import Source
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_table import FileColumn


def check_metadata(source: Source) -> Iterator[Finding]:
    """Faults of the metadata, which could be read."""
    info, episodes = source.meta.info, source.meta.episodes
    num_frames = int(episodes.to_index[-1])
    for odd in source.meta.oddities:
        if odd.num_lost_episodes:
            # Nothing to exclude is left of these episodes: an empty range of frames.
            frames = (num_frames, num_frames)
            yield Finding(Check.EPISODES, "bad", odd.message, None, odd.file, None, frames)
        else:
            yield Finding(Check.METADATA, "warning", odd.message, None, odd.file)
    for episode in source.selection.episodes.tolist():
        if not episodes.lengths[episode]:
            frames = (int(episodes.from_index[episode]), int(episodes.to_index[episode]))
            message = "the episode has no frames"
            file = episodes.data_files.paths[episodes.data_files.of_episode[episode]]
            yield Finding(Check.EPISODES, "warning", message, episode, file, None, frames)
    file = names.TASK_LINES_FILE if info.major_version == 2 else names.TASKS_FILE
    yield from (
        Finding(Check.TASKS, "warning", fault, None, file) for fault in _task_faults(source)
    )


def _task_faults(source: Source) -> Iterator[str]:
    numbers: dict[str, int] = {}
    for number, text in enumerate(source.meta.tasks):
        earlier = numbers.setdefault(text, number)
        fault = "is empty" if not text.strip() else f"duplicates task {earlier}"
        if earlier != number or not text.strip():
            yield f"task {number} {fault}"


def files_to_check(source: Source, keys: Collection[str], is_full: bool) -> Iterator[CheckedFile]:
    """Every file of chosen episodes; rows come first, as they are the quickest to check."""
    info, episodes = source.meta.info, source.meta.episodes
    rows = _parts(source, episodes.data_files, episodes.first_rows_in_file())
    yield from _row_files(source, keys, rows)
    for key in [key for key in info.features if key in keys and info.features[key].is_camera]:
        camera = Camera(key, info.features[key], info.fps, is_full)
        if camera.feature.dtype == names.IMAGE:
            yield from (ImageFile(part, camera) for part in rows.values())
            continue
        starts = np.rint(episodes.video_starts_s[key] * info.fps).astype(np.int64)
        parts = _parts(source, episodes.video_files[key], starts)
        yield from (VideoFile(part, camera) for part in parts.values())


def _row_files(
    source: Source, keys: Collection[str], parts: Mapping[int, EpisodeFile]
) -> Iterator[RowFile]:
    info, episodes = source.meta.info, source.meta.episodes
    features = {key: each for key, each in info.features.items() if each.dtype != names.VIDEO}
    rules = RowRules(
        features=features,
        videos=frozenset(info.video_keys),
        derived=_derived(source),
        keys=frozenset(keys),
        fps=info.fps,
        tasks=source.meta.tasks,
    )
    members = episodes.data_files.members(np.arange(len(episodes)))
    for file, part in parts.items():
        held = [(episodes.from_index[each], episodes.to_index[each]) for each in members[file]]
        tasks = tuple(tuple(episodes.tasks[stretch.episode]) for stretch in part.stretches)
        yield RowFile(part, tuple((int(first), int(end)) for first, end in held), tasks, rules)


def _derived(source: Source) -> frozenset[str]:
    """Columns that follow from the metadata where data files lack them."""
    episodes, chosen = source.meta.episodes, source.selection.episodes
    frames = episodes.from_index[chosen[episodes.lengths[chosen] > 0]]
    return frozenset(key for key in DERIVABLE if derived_column(source, key, frames) is not None)


def _parts(source: Source, files: FileColumn, starts: np.ndarray) -> dict[int, EpisodeFile]:
    """The files of chosen episodes that have frames; `starts` is where each begins in its file."""
    episodes, chosen = source.meta.episodes, source.selection.episodes
    lengths = episodes.lengths
    table = np.stack([np.arange(len(episodes)), episodes.from_index, lengths, starts], axis=1)
    return {
        file: EpisodeFile(
            str(source.root),
            files.paths[file],
            tuple(EpisodeRange(*row) for row in table[own].tolist()),
        )
        for file, own in files.members(chosen[lengths[chosen] > 0]).items()
    }


Progress = Callable[[int, int], None]  # Called with the number of frames checked and the total


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What to check, and with how many processes."""

    thoroughness: Thoroughness = "full"  # `quick` decodes the first and last image of each file
    keys: Collection[str] | None = None  # None: all. Rows must be readable in any case
    num_workers: int | None = None  # None: one per core; small jobs run in this process
    on_progress: Progress | None = None

    def keys_of(self, source: Source) -> tuple[str, ...]:
        """The features of a dataset to check."""
        features = source.meta.info.features
        return tuple(key for key in features if self.keys is None or key in self.keys)


def check_dataset(source: Source, checking: CheckOptions | None = None) -> CheckResult:
    """Check the chosen episodes of a dataset whose metadata could be read."""
    checking = checking or CheckOptions()
    started = time.perf_counter()
    keys = checking.keys_of(source)
    report = _run_checks(source, checking)
    findings = [*check_metadata(source), *report.findings, *_mixed_types(report)]
    findings += check_constants(report.summaries, source.meta.info.features)
    # Only summaries of all frames can be compared with statistics of the complete dataset.
    total = int(source.meta.episodes.lengths.sum())
    complete = {key: each for key, each in report.summaries.items() if each.num_frames == total}
    findings += check_statistics(source, keys, complete)
    # Jobs of one file report the same of it.
    unique = tuple(sorted(dict.fromkeys(findings), key=_order))
    scope = Scope(source, keys, report.coverage)
    return CheckResult(
        root=str(source.root),
        thoroughness=checking.thoroughness,
        keys=keys,
        num_episodes=len(source.selection.episodes),
        num_frames=source.selection.num_rows,
        findings=unique,
        looked_at=scope.texts(unique, checking.thoroughness == "full"),
        wall_s=time.perf_counter() - started,
        is_lasting=report.is_lasting,
        coverage=report.coverage,
        incomplete=scope.incomplete(),
        num_lost_episodes=(lost := _num_lost(source)),
        num_lost_frames=round(lost * source.meta.episodes.lengths.mean()),
    )


def _num_lost(source: Source) -> int:
    return sum(odd.num_lost_episodes for odd in source.meta.oddities)


def _run_checks(source: Source, checking: CheckOptions) -> Report:
    files = files_to_check(source, checking.keys_of(source), checking.thoroughness == "full")
    jobs = [*jobs_for(files)]
    num_workers = num_cores() if checking.num_workers is None else checking.num_workers
    done, total = 0, sum(job.num_frames for job in jobs)
    reports = []
    for job, report in run_jobs(jobs, num_workers):
        reports.append(report)
        done += job.num_frames
        if checking.on_progress is not None:
            checking.on_progress(done, total)
    return gathered(reports)


def _mixed_types(report: Report) -> Iterator[Finding]:
    """Strings and lists that differ between files so much that they make no column."""
    if not report.schemas:
        return
    try:
        pa.unify_schemas(report.schemas, promote_options="permissive")
    except pa.ArrowException as error:
        message = f"column types differ between files: {' '.join(str(error).split())}"
        yield Finding(Check.COLUMNS, "bad", message, None, "data")


def _order(finding: Finding) -> tuple[int, str, int, str]:
    episode = -1 if finding.episode is None else finding.episode
    return CHECKS.index(finding.check), finding.severity, episode, finding.file or ""
