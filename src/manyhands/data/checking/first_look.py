"""A first verdict within seconds: metadata, all files' sizes, and first and last images."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from manyhands import units
from manyhands.data.checking.cameras import CameraFile
from manyhands.data.checking.check import check_metadata, files_to_check
from manyhands.data.checking.conditions import condition_findings
from manyhands.data.checking.faults import faults_of, num_faults
from manyhands.data.checking.finding import Finding, counted
from manyhands.data.episodes import Source

DEADLINE_S = 3.0


@dataclass(frozen=True)
class FirstLook:
    """What a look of some seconds found."""

    num_files: int
    num_decoded: int  # Video files and tables of images whose first and last image were decoded
    num_cameras: int  # Those there are
    findings: tuple[Finding, ...]
    wall_s: float

    @property
    def text(self) -> str:
        """One line."""
        seen = f"first look after {units.duration(self.wall_s)}: {counted(self.num_files, 'file')}"
        if self.num_cameras:
            images = counted(self.num_cameras, "camera file")
            seen += f", first and last images of {self.num_decoded:,} of {images}"
        bad = [finding for finding in self.findings if finding.severity == "bad"]
        if bad:
            found = f"{counted(num_faults(bad), 'fault')}, the first: {faults_of(bad)[0].text}"
            return f"{seen}; {found}"
        return f"{seen}; nothing bad so far"


def first_look(source: Source, deadline_s: float = DEADLINE_S) -> FirstLook:
    """Look at a dataset whose metadata could be read until the deadline."""
    started = time.perf_counter()
    files = [*files_to_check(source, tuple(source.meta.info.features), is_full=False)]
    findings = [*check_metadata(source)]
    present = []
    for file in files:
        faults = condition_findings(file)
        findings += faults
        present += [] if faults else [file]
    cameras = _spread([file for file in present if isinstance(file, CameraFile)])
    num_decoded = 0
    for file in cameras:
        if time.perf_counter() - started > deadline_s:
            break
        findings += file.report().findings
        num_decoded += 1
    return FirstLook(
        num_files=len({file.part.path for file in files}),
        num_decoded=num_decoded,
        num_cameras=sum(isinstance(file, CameraFile) for file in files),
        findings=tuple(dict.fromkeys(findings)),
        wall_s=time.perf_counter() - started,
    )


def _spread(files: Sequence[CameraFile]) -> list[CameraFile]:
    """The first, the last, then others in an order that covers all of them evenly."""
    # Multiples of the golden ratio fill an interval evenly, however many are taken.
    order = sorted(range(len(files)), key=lambda number: number * 0.6180339887498949 % 1)
    ends = [number for number in (0, len(files) - 1) if files]
    return [files[number] for number in dict.fromkeys([*ends, *order])]
