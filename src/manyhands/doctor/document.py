"""The findings of a check for programs."""

from typing import Any

from manyhands.data.checking.finding import CHECKS, CheckResult, Finding


def document_of(result: CheckResult) -> dict[str, Any]:
    """A result as values for a JSON file."""
    return {
        "root": result.root,
        "thoroughness": result.thoroughness,
        "is_usable": result.is_usable,
        "checks": [_check(result, check) for check in CHECKS],
        "num_episodes": result.num_episodes,
        "num_frames": result.num_frames,
        "bad_episodes": result.bad_episodes,
        "wall_s": result.wall_s,
        "cached": result.cached,
    }


def _check(result: CheckResult, check: str) -> dict[str, Any]:
    return {
        "name": check,
        "state": result.state_of(check),
        "looked_at": result.looked_at.get(check),
        "findings": [_finding(finding) for finding in result.of_check(check)],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "episode": finding.episode,
        "file": finding.file,
        "message": finding.message,
        "severity": finding.severity,
        "key": finding.key,
        "frames": finding.frames,
    }
