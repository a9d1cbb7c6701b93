"""Findings that are alike, as one fault with all its episodes and files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manyhands.data.checking.finding import Finding


@dataclass(frozen=True)
class Fault:
    """The same finding in some episodes and files."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """The finding of the first episode."""
        return self.findings[0]

    @property
    def episodes(self) -> list[int]:
        """The episodes it concerns; none if it concerns the complete dataset."""
        return sorted({each.episode for each in self.findings if each.episode is not None})

    @property
    def files(self) -> list[str]:
        """The files it concerns."""
        return sorted({each.file for each in self.findings if each.file is not None})

    @property
    def text(self) -> str:
        """Episodes, file and fault on one line."""
        others = len(self.files) - 1
        likewise = f", and {others:,} more file{'s' if others > 1 else ''} likewise"
        return _text(self.episodes, self.first) + (likewise if others > 0 else "")


def _text(episodes: Sequence[int], finding: Finding) -> str:
    noun = "episode" if len(episodes) == 1 else "episodes"
    which = f"{noun} {episode_ranges(episodes)}" if episodes else ""
    # Messages of the readers begin with the file already.
    file = "" if finding.file is None or finding.file in finding.message else finding.file
    place = ", ".join(filter(None, [which, file]))
    return f"{place}: {finding.message}" if place else finding.message


def faults_of(findings: Iterable[Finding]) -> list[Fault]:
    """Findings by what they say, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for each in findings:
        message = each.message.replace(each.file or "\0", "")
        groups.setdefault((each.check, each.severity, each.key, message), []).append(each)
    return [Fault(tuple(group)) for group in groups.values()]


def num_faults(findings: Iterable[Finding]) -> int:
    """Faults of files, each counted once however many episodes it concerns."""
    return len({(each.check, each.severity, each.file, each.message) for each in findings})


def episode_ranges(episodes: Sequence[int], limit: int = 8) -> str:
    """Ascending numbers in words: 0, 3 to 7, 9; at most some ranges."""
    ranges: list[list[int]] = []
    for number in episodes:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(low) if low == high else f"{low} to {high}" for low, high in ranges[:limit]]
    rest = sum(high - low + 1 for low, high in ranges[limit:])
    return ", ".join(texts) + (f" and {rest:,} more" if rest else "")
