"""Whether a success rate reproduces the expected one."""

from typing import Any

from manyhands.evaluation.score import Score

REPRODUCED, ABOVE, BELOW = "reproduced", "above", "below"

Band = tuple[float, float]
"""Lowest and highest expected success rate, in percent."""


def verdict(total: Score, expected: Band) -> str:
    """Above or below if the 95 % interval and the band are disjoint, else reproduced."""
    low, high = percent_interval(total)
    if low > expected[1]:
        return ABOVE
    return BELOW if high < expected[0] else REPRODUCED


def verdict_line(total: Score, expected: Band) -> str:
    """The verdict for people, with the numbers that it follows from."""
    low, high = percent_interval(total)
    return (
        f"Success {100 * total.success:.1f} % [{low:.1f}, {high:.1f}] over {total.num_episodes} "
        f"episodes: {verdict(total, expected)} (expected {expected[0]:g} to {expected[1]:g} %)"
    )


def verdict_entries(total: Score, expected: Band | None) -> dict[str, Any]:
    """The verdict for programs; nothing without an expectation."""
    if expected is None:
        return {}
    return {"expected_success": list(expected), "verdict": verdict(total, expected)}


def percent_interval(total: Score) -> tuple[float, float]:
    """The 95 % interval in percent."""
    low, high = total.interval
    return 100 * low, 100 * high
