"""What a repair changed, and which episodes it dropped."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Repair:
    """One fault, and what was done about it."""

    where: str  # File, feature or folder
    fault: str
    repair: str
    episodes: tuple[int, ...] = ()  # Numbers in the damaged dataset; empty if all are concerned


@dataclass
class RepairReport:
    """All repairs in the order in which they were made."""

    repairs: list[Repair] = field(default_factory=list)
    num_episodes: int = 0
    num_frames: int = 0
    wall_s: float = 0.0

    @property
    def dropped_episodes(self) -> list[int]:
        """Numbers, in the damaged dataset, of the episodes that are not in the copy."""
        dropped = [each.episodes for each in self.repairs if each.repair == DROPPED]
        return sorted({number for episodes in dropped for number in episodes})

    def add(self, where: str, fault: str, repair: str, episodes: Sequence[int] = ()) -> None:
        """Note a repair; the same fault of several episodes is one entry."""
        for place, known in enumerate(self.repairs):
            if (known.where, known.fault, known.repair) == (where, fault, repair):
                together = (*known.episodes, *episodes)
                self.repairs[place] = Repair(where, fault, repair, tuple(dict.fromkeys(together)))
                return
        self.repairs.append(Repair(where, fault, repair, tuple(episodes)))

    def drop(self, where: str, fault: str, episodes: Sequence[int]) -> None:
        """Note episodes that cannot be repaired."""
        self.add(where, fault, DROPPED, episodes)

    def document(self) -> dict[str, Any]:
        """The report as values for a JSON file."""
        return asdict(self) | {"dropped_episodes": self.dropped_episodes}


DROPPED = "episode dropped"
