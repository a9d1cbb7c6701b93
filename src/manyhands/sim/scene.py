"""What there is to see on the tables, and the sizes of things."""

from dataclasses import dataclass

import numpy as np

BLOCK_HALF = 0.085
"""Half the side of the block."""
TRAY_RADIUS = 0.27
"""Radius of the tray."""
BLOCK_OPENING = 0.5
"""Opening of the gripper at which its fingers touch the sides of a block between them."""


@dataclass(frozen=True)
class Scene:
    """Positions (worlds, 2) in table units, openings and lifts (worlds,) from 0 to 1."""

    gripper: np.ndarray
    opening: np.ndarray
    block: np.ndarray
    tray: np.ndarray
    lift: np.ndarray
    """Height of the block: 0 on the table, 1 carried."""
