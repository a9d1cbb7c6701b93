"""Check a dataset: metadata, rows, statistics and images."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from manyhands.cores import num_cores
from manyhands.data.checking import finding as checks
from manyhands.data.checking.finding import CheckResult, Finding, Thoroughness
from manyhands.data.checking.job import Report, gathered, jobs_for
from manyhands.data.checking.metadata import check_metadata
from manyhands.data.checking.plan import files_to_check
from manyhands.data.checking.pool import run_jobs
from manyhands.data.checking.scope import scope_of
from manyhands.data.checking.statistics import check_constants, check_statistics
from manyhands.data.checking.summary import Summaries
from manyhands.data.selection import Source

Progress = Callable[[int, int], None]
"""Called with the number of frames checked and the total."""


@dataclass(frozen=True, kw_only=True)
class Checking:
    """What to check, and with how many processes."""

    thoroughness: Thoroughness = "full"
    """`full` decodes every image, `quick` the first and last of each file."""
    keys: Collection[str] | None = None
    """Features to check; None means all. Rows must be readable in any case."""
    num_workers: int | None = None
    """Processes; None uses the available cores; small jobs run in this process."""
    on_progress: Progress | None = None

    def keys_of(self, source: Source) -> tuple[str, ...]:
        """The features of a dataset to check."""
        features = source.meta.info.features
        return tuple(key for key in features if self.keys is None or key in self.keys)


def check_dataset(source: Source, checking: Checking | None = None) -> CheckResult:
    """Check the chosen episodes of a dataset whose metadata could be read."""
    checking = checking or Checking()
    started = time.perf_counter()
    keys, is_full = checking.keys_of(source), checking.thoroughness == "full"
    report = _examined(source, checking)
    findings = [*check_metadata(source), *report.findings, *_mixed_types(report)]
    findings += check_constants(report.summaries, source.meta.info.features)
    findings += check_statistics(source, keys, _of_all_frames(source, report.summaries))
    return CheckResult(
        root=str(source.root),
        thoroughness=checking.thoroughness,
        keys=keys,
        num_episodes=len(source.selection.episodes),
        num_frames=source.selection.num_rows,
        # Jobs of one file report the same of it.
        findings=tuple(sorted(dict.fromkeys(findings), key=_order)),
        looked_at=scope_of(source, keys, is_full),
        wall_s=time.perf_counter() - started,
        is_lasting=report.is_lasting,
    )


def _examined(source: Source, checking: Checking) -> Report:
    """The joint report on all files."""
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
        yield Finding(checks.COLUMNS, "bad", message, None, "data")


def _of_all_frames(source: Source, summaries: Summaries) -> Summaries:
    """Those that can be compared with statistics of the complete dataset."""
    num_frames = int(source.meta.episodes.lengths.sum())
    return {key: each for key, each in summaries.items() if each.num_frames == num_frames}


def _order(finding: Finding) -> tuple[int, str, int, str]:
    """Sort key of findings in a report."""
    episode = -1 if finding.episode is None else finding.episode
    return checks.CHECKS.index(finding.check), finding.severity, episode, finding.file or ""
