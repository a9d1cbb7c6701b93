"""Captions of images, drawn with strokes: neither matplotlib nor a font is required."""

from functools import lru_cache
from itertools import pairwise

import numpy as np

# Strokes of a character, as points of two hexadecimal digits: x from the left edge, y from the
# bottom. Lines stand on y = 3, small letters reach 9, digits 12. Two points are a straight line,
# more of them steer a curve as corners that it rounds off.
STROKES = {
    " ": "",
    "+": "0646 2428",
    ",": "1401",
    "-": "0646",
    ".": "0304",
    ":": "0304 0809",
    "0": "070c5c530307",
    "1": "0a2c 2c23 0343",
    "2": "0a0c5c5803 0353",
    "3": "0b0c5c5828 2858530304",
    "4": "4c05 0555 4c43",
    "5": "5c0c 0c08 080959530304",
    "6": "060959530306 060c4c",
    "7": "0c5c 5c23",
    "8": "0a0c5c58080a 050858530305",
    "9": "090c5c560609 595313",
    "a": "565909035356 5953",
    "c": "585909035354",
    "d": "565909035356 5c53",
    "e": "565909035354 0656",
    "f": "4c2c29 2923 0949",
    "i": "0903 0c0c",
    "l": "0c03",
    "m": "0903 07094947 4743 47498987 8783",
    "n": "0903 07095957 5753",
    "o": "060959530306",
    "p": "0900 060959530306",
    "r": "0903 070949",
    "s": "5859090656530304",
    "u": "0905 05035355 5953",
    "w": "0923 2349 4963 6389",
    "x": "0953 0359",
}
THICKNESS = 1.3
MARGIN = 1.5  # On either side of a character; two of them separate it from the next
TOP, NUM_ROWS = 13.5, 15
SPACE = 3
POINTS_PER_CURVE = 8


def caption_coverage(text: str, scale: int) -> np.ndarray:
    """How much of each pixel (height, width) the strokes of a text cover, from 0 to 1."""
    return np.concatenate([_character_coverage(each, scale) for each in text], axis=1)


@lru_cache(maxsize=len(STROKES))
def _character_coverage(character: str, scale: int) -> np.ndarray:
    strokes = [_points(stroke) for stroke in STROKES[character].split()]
    extent = max((points[:, 0].max() for points in strokes), default=SPACE)
    num_columns = round((extent + 2 * MARGIN) * scale)
    x = (np.arange(num_columns) + 0.5) / scale - MARGIN
    y = TOP - (np.arange(NUM_ROWS * scale) + 0.5) / scale
    pixels = np.stack(np.meshgrid(x, y), axis=-1)
    distance = np.full(pixels.shape[:2], np.inf)
    for points in map(_curve, strokes):
        for start, end in pairwise(points):
            distance = np.minimum(distance, _distance(pixels, start, end))
    return np.clip((THICKNESS / 2 - distance) * scale + 0.5, 0, 1)


def _points(stroke: str) -> np.ndarray:
    return np.array([int(digit, 16) for digit in stroke], np.float64).reshape(-1, 2)


def _curve(corners: np.ndarray) -> np.ndarray:
    """Points of a quadratic B-spline from the first corner to the last."""
    if len(corners) == 2:
        return corners
    middles = (corners[1:-2] + corners[2:-1]) / 2
    knots = np.concatenate([corners[:1], middles, corners[-1:]])
    t = np.linspace(0, 1, POINTS_PER_CURVE)[:, None]
    pieces = zip(knots[:-1], corners[1:-1], knots[1:], strict=True)
    return np.concatenate(
        [(1 - t) ** 2 * start + 2 * t * (1 - t) * bend + t**2 * end for start, bend, end in pieces]
    )


def _distance(pixels: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How far pixels (height, width, 2) are from a line."""
    line = end - start
    # The last point of a curve's piece is the first one of the next.
    along = (pixels - start) @ line / max(line @ line, 1e-9)
    nearest = start + np.clip(along, 0, 1)[..., None] * line
    found: np.ndarray = np.linalg.norm(pixels - nearest, axis=-1)
    return found
