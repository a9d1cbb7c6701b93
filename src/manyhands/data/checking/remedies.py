"""Ways out of a dataset's faults: commands and flags to paste."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyhands.data.checking.finding import Check, CheckResult, Finding
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.fetching import AGAIN, download_command, fetch_remedy
from manyhands.lerobot_format.dataset.file_condition import Condition, file_condition
from manyhands.lerobot_format.dataset.moved_folders import move_command, moved_folders
from manyhands.lerobot_format.dataset.repairing import contradiction_remedy, repair_command

_REPAIRED = (Check.METADATA, Check.COLUMNS, Check.NUMBERING, Check.TASKS)
_FETCHED = (Condition.LFS_POINTER, Condition.ANNEX_LINK)


@dataclass(frozen=True)
class Avoidance:
    """What a command can do with bad episodes, and what was asked of it already."""

    exclude_flag: str | None = "--dataset.exclude_episodes"  # None: it has no such flag
    skip_flag: str | None = "--dataset.on_bad=skip"  # None: it cannot skip, or skips already
    excluded: Sequence[int] = ()  # Episodes that are excluded already
    max_bad: float | None = None  # Largest share to skip; None if there is no limit
    lists_all: bool = False  # Whether every finding is shown


def remedies(result: CheckResult, avoidance: Avoidance) -> list[str]:
    """Lines with a command or flag each, the best first."""
    bad = [finding for finding in result.findings if finding.severity == "bad"]
    lines = [*_fetching(result, bad), *_avoiding(result, bad, avoidance), *_repairing(result, bad)]
    # What names no command comes last.
    lines.sort(key=lambda line: line == AGAIN)
    if not avoidance.lists_all:
        lines.append(f"List every finding: {doctor_command(result.root)}")
    return lines


def doctor_command(root: str) -> str:
    """The command that shows all that is wrong with a dataset."""
    return f"manyhands doctor --all --dataset.root={shlex.quote(root)}"


def exclude_flag(name: str, episodes: Sequence[int]) -> str:
    """The flag that excludes episodes, all in one list."""
    return f"{name}=[{','.join(map(str, sorted({*episodes})))}]"


def _fetching(result: CheckResult, bad: Sequence[Finding]) -> Iterator[str]:
    """Commands that bring files back."""
    root = Path(result.root)
    paths = sorted({each.file for each in bad if each.check == Check.FILES and each.file})
    conditions = {path: file_condition(root / path).condition for path in paths}
    for wanted in _FETCHED:
        if wanted in conditions.values():
            yield fetch_remedy(root / names.INFO_FILE, wanted)
    missing = [path for path in paths if conditions[path] is Condition.MISSING]
    moved = moved_folders(root, missing, missing)
    if moved:
        yield f"Move the folder to its place: {move_command(moved)}"
    download = download_command(root)
    others = {*conditions.values()} - {*_FETCHED} - ({Condition.MISSING} if moved else set())
    if others:
        yield AGAIN if download is None else f"Complete the download: {download}"


def _avoiding(result: CheckResult, bad: Sequence[Finding], avoidance: Avoidance) -> Iterator[str]:
    """Flags that train on the rest."""
    if any(finding.frames is None for finding in bad):
        return
    episodes, num_left = result.bad_episodes, result.num_episodes - len(result.bad_episodes)
    if episodes and num_left and avoidance.exclude_flag is not None:
        flag = exclude_flag(avoidance.exclude_flag, [*episodes, *avoidance.excluded])
        yield f"Use the other {num_left} episodes: {flag}"
    has_lost = any(finding.episode is None for finding in bad)
    if avoidance.skip_flag is not None and (num_left or _has_good_frames(result, bad)):
        limit = _needed_limit(result, bad, avoidance)
        why = "Accept what is missing" if has_lost else "Skip only the bad samples"
        yield f"{why}: {avoidance.skip_flag}{limit}"


def _has_good_frames(result: CheckResult, bad: Sequence[Finding]) -> bool:
    return _num_bad_frames(bad) < result.num_frames


def _num_bad_frames(bad: Sequence[Finding]) -> int:
    total, end = 0, 0
    for first, last in sorted(each.frames for each in bad if each.frames is not None):
        total += max(last - max(first, end), 0)
        end = max(end, last)
    return total


def _needed_limit(result: CheckResult, bad: Sequence[Finding], avoidance: Avoidance) -> str:
    """The flag that allows as much to be skipped as is bad, where that is not allowed yet."""
    if avoidance.max_bad is None:
        return ""
    num_bad, num_frames = _num_bad_frames(bad), result.num_frames
    num_bad += result.num_lost_frames
    share = num_bad / max(num_frames + result.num_lost_frames, 1)
    return f" {limit_flag(share)}" if share > avoidance.max_bad else ""


def limit_flag(share: float) -> str:
    """The flag that allows a share of samples to be skipped, rounded up."""
    return f"--dataset.max_bad={min(int(share * 100) + 1, 100) / 100:g}"


def _repairing(result: CheckResult, bad: Sequence[Finding]) -> Iterator[str]:
    if any(each.check in _REPAIRED for each in bad):
        yield f"Repair a copy: {repair_command(result.root)}"
    if any(each.check == Check.STATISTICS for each in bad):
        root = Path(result.root)
        own, lines = root / names.STATS_FILE, root / names.EPISODE_STATS_LINES_FILE
        yield contradiction_remedy(root, own if own.exists() else lines)
