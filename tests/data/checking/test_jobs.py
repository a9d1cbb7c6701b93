"""Files bundled to jobs of some seconds."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from manyhands.data.checking.finding import Finding
from manyhands.data.checking.jobs import Job, Report, gathered, jobs_for
from manyhands.data.checking.statistics import summarize


@dataclass(frozen=True)
class Stub:
    """A file of so many frames that take a second each."""

    name: str
    num_frames: int

    @property
    def cost_s(self):
        return float(self.num_frames)

    def report(self):
        return Report([Finding("files", "bad", self.name)])

    def lost(self, reason):
        return Report([Finding("files", "bad", f"{self.name}: {reason}")])

    def split(self, cost_s):
        size = max(int(cost_s), 1)
        sizes = [min(size, self.num_frames - done) for done in range(0, self.num_frames, size)]
        return [Stub(f"{self.name}{number}", each) for number, each in enumerate(sizes)]


def test_small_files_share_a_job_and_large_ones_are_divided():
    jobs = [*jobs_for([Stub("a", 1), Stub("b", 1), Stub("c", 5), Stub("d", 1)])]
    assert [[file.name for file in job.files] for job in jobs] == [
        ["a0", "b0"],
        ["c0"],
        ["c1"],
        ["c2", "d0"],
    ]
    assert sum(job.num_frames for job in jobs) == 8
    assert [*jobs_for([])] == []


def test_a_job_is_divided_by_files_and_then_by_episodes():
    job = Job((Stub("a", 2), Stub("b", 1)))
    assert [part.files[0].name for part in job.parts()] == ["a", "b"]
    assert [part.files[0].name for part in job.parts()[0].parts()] == ["a0", "a1"]
    assert job.parts()[1].parts() == []


def test_a_report_on_a_lost_job_does_not_last():
    job = Job((Stub("a", 2), Stub("b", 1)))
    assert job.run().is_lasting
    lost = job.lost("gone")
    assert [finding.message for finding in lost.findings] == ["a: gone", "b: gone"]
    assert not lost.is_lasting


def test_reports_are_gathered_without_repeating_types():
    schema = pa.schema([("note", pa.string())])
    part = Report([Finding("files", "bad", "x")], {"a": summarize(np.ones((2, 1)))}, [schema])
    whole = gathered([part, part, Report()])
    assert len(whole.findings) == 2
    assert whole.schemas == [schema]
    assert whole.summaries["a"].num_frames == 4
