"""The result of a dataset check in words."""

from manyhands import units
from manyhands.data.checking.coverage import total
from manyhands.data.checking.faults import faults_of, num_faults
from manyhands.data.checking.finding import Check, CheckResult, counted

MAX_SHOWN = 3  # Findings shown per check


def verdict_line(result: CheckResult) -> str:
    """One line: whether the dataset is usable, and what was checked."""
    bad = [finding for finding in result.findings if finding.severity == "bad"]
    parts = [f"checked {_seen(result)}"]
    parts[0] += " earlier" if result.cached else f" in {units.duration(result.wall_s)}"
    if bad:
        episodes = result.bad_episodes
        where = counted(len(episodes), "episode") if episodes else "the dataset"
        parts.append(f"{counted(num_faults(bad), 'fault')} in {where}")
    num_warnings = num_faults(each for each in result.findings if each.severity == "warning")
    if num_warnings:
        parts.append(counted(num_warnings, "warning"))
    return f"{'usable' if result.is_usable else 'bad'}: {', '.join(parts)}"


def _seen(result: CheckResult) -> str:
    """Episodes and frames whose rows could be read."""
    wanted = (counted(result.num_episodes, "episode"), counted(result.num_frames, "frame"))
    rows = result.coverage.get(Check.NUMBERING, {})
    num_seen = total(result.coverage, [Check.NUMBERING]).seen
    if num_seen == result.num_frames:
        return " with ".join(wanted)
    num_episodes = sum(frames.seen > 0 for frames in rows.values())
    return f"{num_episodes:,} of {wanted[0]} with {num_seen:,} of {wanted[1]}"


def findings_text(result: CheckResult, check: str, limit: int | None = MAX_SHOWN) -> str:
    """The first findings of a check, a line each, and how many more there are; None for all."""
    faults = faults_of(result.of_check(check))
    lines = [fault.text for fault in faults[:limit]]
    if limit is not None and len(faults) > limit:
        lines.append(f"and {len(faults) - limit} more")
    return "\n".join(lines)


def has_more(result: CheckResult) -> bool:
    """Whether some findings are not shown."""
    checks = {finding.check for finding in result.findings}
    return any(len(faults_of(result.of_check(check))) > MAX_SHOWN for check in checks)
