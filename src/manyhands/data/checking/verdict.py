"""The result of a dataset check in words."""

from manyhands import units
from manyhands.data.checking.finding import CheckResult, counted

MAX_SHOWN = 3  # Findings shown per check


def verdict_line(result: CheckResult) -> str:
    """One line: whether the dataset is usable, and what was checked."""
    num_bad = sum(finding.severity == "bad" for finding in result.findings)
    num_warnings = len(result.findings) - num_bad
    seen = (counted(result.num_episodes, "episode"), counted(result.num_frames, "frame"))
    parts = [f"checked {' with '.join(seen)}"]
    parts[0] += " earlier" if result.cached else f" in {units.duration(result.wall_s)}"
    if num_bad:
        bad = result.bad_episodes
        where = counted(len(bad), "episode") if bad else "the dataset"
        parts.append(f"{counted(num_bad, 'fault')} in {where}")
    if num_warnings:
        parts.append(counted(num_warnings, "warning"))
    return f"{'usable' if result.is_usable else 'bad'}: {', '.join(parts)}"


def findings_text(result: CheckResult, check: str) -> str:
    """The first findings of a check, a line each, and how many more there are."""
    findings = result.of_check(check)
    lines = [finding.text for finding in findings[:MAX_SHOWN]]
    if len(findings) > MAX_SHOWN:
        lines.append(f"and {len(findings) - MAX_SHOWN} more")
    return "\n".join(lines)
