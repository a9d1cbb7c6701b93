"""The episodes of a dataset that can be read, for commands that read every frame anyway."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from manyhands.data.checking.check import CheckOptions, files_to_check
from manyhands.data.checking.conditions import condition_findings
from manyhands.data.checking.finding import CheckResult
from manyhands.data.checking.rejection import rejection
from manyhands.data.checking.remedies import Avoidance
from manyhands.data.checking.result_cache import check_once
from manyhands.data.episodes import Source, select_episodes
from manyhands.errors import DatasetError

SKIP = "skip"
ON_BAD = ("fail", SKIP)


def check_files(source: Source, keys: Collection[str], avoidance: Avoidance) -> None:
    """Reject missing, empty and replaced files, all together, without reading any of them."""
    files = files_to_check(source, keys, is_full=False)
    findings = tuple(finding for file in files for finding in condition_findings(file))
    if not findings:
        return
    result = CheckResult(
        root=str(source.root),
        thoroughness="quick",
        keys=tuple(keys),
        num_episodes=len(source.selection.episodes),
        num_frames=source.selection.num_rows,
        findings=findings,
        looked_at={},
        wall_s=0.0,
    )
    raise DatasetError(rejection(result, avoidance))


def without_bad_episodes(
    source: Source, keys: Collection[str], home: Path, avoidance: Avoidance
) -> tuple[Source, str]:
    """The source without episodes that have faults, and a note on them; empty if there are none."""
    result = check_once(source, home, CheckOptions(thoroughness="quick", keys=keys))
    bad, chosen = result.bad_episodes, source.selection.episodes
    left = np.setdiff1d(chosen, bad)
    can_skip = all(each.frames for each in result.findings if each.severity == "bad")
    if not can_skip or not left.size:
        raise DatasetError(rejection(result, replace(avoidance, skip_flag=None)))
    if not bad:
        return source, ""
    selection = select_episodes(source.meta.episodes, left.tolist())
    num_frames = source.selection.num_rows - selection.num_rows
    note = (
        f"skipped {len(bad)} of {len(chosen)} episodes ({len(bad) / len(chosen):.1%}) and "
        f"{num_frames:,} of {source.selection.num_rows:,} frames with faults: {bad}"
    )
    return replace(source, selection=selection), note
