"""Work that can be done apart from all other: some files, each of which gives a report."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from manyhands.data.checking.finding import Finding
from manyhands.data.checking.summary import Summaries, joined

_JOB_S = 2.0
"""How long a job should take: little enough to spread, more than handing it over costs."""


@dataclass(frozen=True)
class Report:
    """What was seen in some files."""

    findings: list[Finding] = field(default_factory=list)
    summaries: Summaries = field(default_factory=dict)
    schemas: list[pa.Schema] = field(default_factory=list)
    """The different types that texts and lists are stored as."""
    is_lasting: bool = True
    """Whether a second look would see the same."""


class CheckedFile(Protocol):
    """A file with what must hold in it."""

    @property
    def num_frames(self) -> int:
        """Frames it is about."""

    @property
    def cost_s(self) -> float:
        """About how long looking at it takes."""

    def report(self) -> Report:
        """Look at it."""

    def lost(self, reason: str) -> Report:
        """What to tell when looking at it ended a process."""

    def split(self, cost_s: float) -> "Sequence[CheckedFile]":
        """The same file by some episodes at a time, so that each part takes about that long."""


@dataclass(frozen=True)
class Job:
    """Files that one process looks at in one go."""

    files: tuple[CheckedFile, ...]

    @property
    def num_frames(self) -> int:
        """Frames it is about."""
        return sum(file.num_frames for file in self.files)

    @property
    def cost_s(self) -> float:
        """About how long it takes."""
        return sum(file.cost_s for file in self.files)

    def run(self) -> Report:
        """Look at all files."""
        return gathered(file.report() for file in self.files)

    def lost(self, reason: str) -> Report:
        """What to tell when it ended a process."""
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
    is_lasting = True
    for report in reports:
        findings += report.findings
        summaries = joined(summaries, report.summaries)
        schemas += [schema for schema in report.schemas if schema not in schemas]
        is_lasting = is_lasting and report.is_lasting
    return Report(findings, summaries, schemas, is_lasting)
