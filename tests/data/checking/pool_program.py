"""Jobs that end, hang or fail in processes of their own; run as a program, which prints JSON."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass

from manyhands.data.checking.finding import Finding
from manyhands.data.checking.jobs import Job, Report
from manyhands.data.checking.worker_pool import run_in_processes


@dataclass(frozen=True)
class Part:
    """Some episodes of a file, each of which makes something happen when it is looked at."""

    episodes: tuple[str, ...]
    cost_s: float = 0.0

    @property
    def num_frames(self) -> int:
        """One frame each."""
        return len(self.episodes)

    def report(self) -> Report:
        """Do what the episodes are called."""
        for episode in self.episodes:
            match episode.split()[0]:
                case "die":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "hang":
                    time.sleep(600)
                case "fail":
                    raise ZeroDivisionError
        return Report([Finding("files", "warning", f"{each}: fine") for each in self.episodes])

    def lost(self, reason: str) -> Report:
        """Name what was lost."""
        return Report([Finding("files", "bad", f"{each}: {reason}") for each in self.episodes])

    def split(self, cost_s: float) -> "list[Part]":
        """Episode by episode."""
        return [Part((episode,)) for episode in self.episodes]


def main(*files: str) -> None:
    """Each argument is a file with episodes between commas."""
    jobs = [Job((Part(tuple(file.split(","))),)) for file in files]
    for job, report in run_in_processes(jobs, num_processes=2, patience_s=1.5):
        for finding in report.findings:
            row = [finding.message, finding.severity, report.is_lasting, job.num_frames]
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
