"""Frames that a check was to look at, and those that it could look at, by episode."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class Frames(NamedTuple):
    """Numbers of frames."""

    seen: int
    wanted: int


Coverage = dict[str, dict[int, Frames]]
"""By check of rows, or by camera, then by episode."""


def include(coverage: Coverage, other: Mapping[str, Mapping[int, Frames]]) -> None:
    """Add what another job looked at."""
    for key, episodes in other.items():
        own = coverage.setdefault(key, {})
        for episode, frames in episodes.items():
            before = own.get(episode, Frames(0, 0))
            own[episode] = Frames(before.seen + frames.seen, before.wanted + frames.wanted)


def total(coverage: Coverage, keys: Iterable[str]) -> Frames:
    """The frames of all episodes."""
    found = [frames for key in keys for frames in coverage.get(key, {}).values()]
    return Frames(sum(each.seen for each in found), sum(each.wanted for each in found))


def narrowed(coverage: Coverage, episodes: Collection[int]) -> Coverage:
    """The frames of some episodes."""
    return {
        key: {episode: frames for episode, frames in own.items() if episode in episodes}
        for key, own in coverage.items()
    }


def parse_coverage(document: Mapping[str, Mapping[str, list[int]]]) -> Coverage:
    """Coverage from its document; a TypeError or ValueError if it is none."""
    return {
        key: {int(episode): Frames(*frames) for episode, frames in own.items()}
        for key, own in document.items()
    }
