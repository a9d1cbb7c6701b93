"""Flags that describe synthetic data, of the commands plan and bench."""

from dataclasses import dataclass

from manyhands.config.schema.rules import at_least

DIMENSIONS = ("state_dim", "action_dim")
SHAPES = ("cameras", "image_size", *DIMENSIONS)  # Flags that describe synthetic data.


@dataclass(frozen=True, kw_only=True)
class SyntheticDataConfig:
    """Synthetic data."""

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
        """The flags of synthetic data that are set."""
        return [name for name in SHAPES if getattr(self, name) is not None]

    def faults(self) -> list[str]:
        """Return every invalid value."""
        size = self.image_size
        faults = [*at_least(self, "", 0, "cameras"), *at_least(self, "", 1, *DIMENSIONS)]
        if size is not None and min(size) < 1:
            faults.append(f"--image_size={list(size)} must be two positive sizes")
        return faults
