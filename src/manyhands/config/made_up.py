"""Data that nobody has recorded, as the user describes it."""

from dataclasses import dataclass

SHAPES = {"cameras": 0, "image_size": 1, "state_dim": 1, "action_dim": 1}
"""Flags that say what made-up data looks like, and the least that each may be."""


@dataclass(frozen=True, kw_only=True)
class MadeUpConfig:
    """Made-up data."""

    cameras: int | None = None
    """Without a dataset: number of synthetic color cameras; null: 1, 0: none."""
    image_size: tuple[int, int] | None = None
    """Without a dataset: height and width of synthetic images; null: [480, 640]."""
    state_dim: int | None = None
    """Without a dataset: size of the synthetic robot state; null: 14."""
    action_dim: int | None = None
    """Without a dataset: size of a synthetic action; null: 14."""

    @property
    def named_shapes(self) -> list[str]:
        """The flags about made-up data that were given."""
        return [name for name in SHAPES if getattr(self, name) is not None]

    def faults(self) -> list[str]:
        """Everything about these values that no data looks like."""
        return [fault for name in self.named_shapes if (fault := self._fault_of(name))]

    def _fault_of(self, name: str) -> str | None:
        value, least = getattr(self, name), SHAPES[name]
        if isinstance(value, tuple):
            is_wrong = min(value) < least
            return f"--{name}={list(value)} must be two positive sizes" if is_wrong else None
        return f"--{name}={value} must be at least {least}" if value < least else None
