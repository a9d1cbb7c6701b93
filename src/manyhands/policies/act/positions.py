"""Sinusoidal position codes: of tokens in a row, and of cells in a feature map."""

import math

import torch
from torch import Tensor


def row_code(num_positions: int, dim: int) -> Tensor:
    """Codes (positions, dim) of positions 0, 1, 2, ..."""
    return _waves(torch.arange(num_positions, dtype=torch.float64), dim).float()


def map_code(height: int, width: int, dim: int) -> Tensor:
    """Codes (height * width, dim) of a map's cells: half for the row, half for the column."""
    rows, columns = (_waves(_angles(size), dim // 2) for size in (height, width))
    rows = rows[:, None].expand(height, width, -1)
    columns = columns[None].expand(height, width, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1).float()


def _angles(size: int) -> Tensor:
    """One turn over the complete axis, counted from 1, whatever the size of the map."""
    return 2 * math.pi * torch.arange(1, size + 1, dtype=torch.float64) / (size + 1e-6)


def _waves(positions: Tensor, dim: int) -> Tensor:
    """Sines at even and cosines at odd places, of wavelengths that grow along the code."""
    place = torch.arange(dim)
    wavelengths = 10000.0 ** (2 * (place // 2).double() / dim)
    angles = positions[:, None] / wavelengths
    return torch.where(place % 2 == 0, angles.sin(), angles.cos())
