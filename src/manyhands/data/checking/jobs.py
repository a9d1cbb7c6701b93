"""Independent units of work: some files, each of which gives a report."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from manyhands.data.checking.coverage import Coverage, include
from manyhands.data.checking.file_ranges import EpisodeFile
from manyhands.data.checking.finding import Finding
from manyhands.data.checking.statistics import Summaries, joined

_JOB_S = 2.0  # Target duration of a job: short enough to balance load, longer than its overhead


@dataclass(frozen=True)
class Report:
    """Findings and summaries of some files."""

    findings: list[Finding] = field(default_factory=list)
    summaries: Summaries = field(default_factory=dict)
    schemas: list[pa.Schema] = field(default_factory=list)  # Types of strings and lists
    is_lasting: bool = True  # Whether a second check would find the same
    coverage: Coverage = field(default_factory=dict)


class CheckedFile(Protocol):
    """A file to check."""

    @property
    def part(self) -> EpisodeFile:
        """The file, and the episodes it is about."""

    @property
    def num_frames(self) -> int:
        """Frames it is about."""

    @property
    def cost_s(self) -> float:
        """Estimated time to check it."""

    def report(self) -> Report:
        """Check it."""

    def lost(self, reason: str) -> Report:
        """The report if the check killed its process."""

    def split(self, cost_s: float) -> "Sequence[CheckedFile]":
        """The same file by some episodes at a time, so that each piece takes about that long."""


@dataclass(frozen=True)
class Job:
    """Files that one process checks in one go."""

    files: tuple[CheckedFile, ...]

    @property
    def num_frames(self) -> int:
        """Frames it is about."""
        return sum(file.num_frames for file in self.files)

    @property
    def cost_s(self) -> float:
        """Estimated time."""
        return sum(file.cost_s for file in self.files)

    def run(self) -> Report:
        """Check all files."""
        return gathered(file.report() for file in self.files)

    def lost(self, reason: str) -> Report:
        """The report if it killed its process."""
        return replace(gathered(file.lost(reason) for file in self.files), is_lasting=False)

    def parts(self) -> "list[Job]":
        """Smaller jobs that do the same; none when it is as small as can be."""
        files = self.files if len(self.files) > 1 else self.files[0].split(cost_s=0.0)
        return [Job((file,)) for file in files] if len(files) > 1 else []


def jobs_for(files: Iterable[CheckedFile]) -> Iterator[Job]:
    """Files in jobs of some seconds each."""
    bundle: list[CheckedFile] = []
    for part in (part for file in files for part in file.split(_JOB_S)):
        bundle.append(part)
        if sum(each.cost_s for each in bundle) >= _JOB_S:
            yield Job(tuple(bundle))
            bundle = []
    if bundle:
        yield Job(tuple(bundle))


def gathered(reports: Iterable[Report]) -> Report:
    """Several reports as one."""
    findings: list[Finding] = []
    summaries: Summaries = {}
    schemas: list[pa.Schema] = []
    coverage: Coverage = {}
    is_lasting = True
    for report in reports:
        findings += report.findings
        summaries = joined(summaries, report.summaries)
        include(coverage, report.coverage)
        schemas += [schema for schema in report.schemas if schema not in schemas]
        is_lasting = is_lasting and report.is_lasting
    return Report(findings, summaries, schemas, is_lasting, coverage)
