"""Near duplicates: pairs of episodes with almost the same trajectory."""

from collections.abc import Iterator, Sequence

import numpy as np

from manyhands.data.quality.episode_quality import Fault, QualityFinding
from manyhands.data.quality.robust import MIN_EPISODES

NUM_POINTS = 32  # Points that every trajectory is resampled to
_NUM_COARSE = 4  # Averages over an eighth of them, for the first comparison
MIN_FRAMES = 8  # Shorter episodes are too alike to compare
MIN_MOTION = 0.05  # In ranges of the joints: episodes at rest are all alike
# A copy that was resampled or stored with less precision; people never repeat themselves so well.
COPY_DISTANCE = 1e-3
# In a dataset of one repeated motion the nearest episodes are close without being copies.
NEAR_DISTANCE, NEAR_SHARE = 0.01, 0.1
MAX_COPIES = 0.5
_BLOCK = 512  # Episodes compared at a time, so that memory stays small
_NUM_CANDIDATES = 32  # Nearest by their averages, whose complete trajectories are compared


def resampled(values: np.ndarray, ranges: np.ndarray) -> np.ndarray | None:
    """A trajectory (points, joints) in ranges of the joints; None if it hardly moves."""
    is_used = ranges > 0
    if len(values) < MIN_FRAMES or not is_used.any():
        return None
    scaled = values[:, is_used] / ranges[is_used]
    if (scaled.max(axis=0) - scaled.min(axis=0)).max() < MIN_MOTION:
        return None
    points = np.linspace(0, len(values) - 1, NUM_POINTS)
    before = np.minimum(points.astype(np.int64), len(values) - 2)
    weight = (points - before)[:, None]
    shape: np.ndarray = (1 - weight) * scaled[before] + weight * scaled[before + 1]
    return shape.astype(np.float32)


class Neighbors:
    """The most similar episode of each: its place (-1 for none), and the distance to it."""

    def __init__(self, shapes: Sequence[np.ndarray]) -> None:
        number = len(shapes)
        self.place, self.distance = np.full(number, -1), np.full(number, np.inf)
        # The same among the episodes before each: of several copies, the first one stays.
        self.earlier, self.earlier_distance = self.place.copy(), self.distance.copy()
        if number < 2:
            return
        self._fine = np.stack(shapes).reshape(number, -1)
        blocks = np.stack(shapes).reshape(number, _NUM_COARSE, NUM_POINTS // _NUM_COARSE, -1)
        # In double precision: differences of copies are small beside their squares.
        self._coarse = blocks.mean(axis=2, dtype=np.float64).reshape(number, -1)
        for first in range(0, number, _BLOCK):
            self._search(np.arange(first, min(first + _BLOCK, number)))

    def _search(self, rows: np.ndarray) -> None:
        # Averaging never increases a root mean square, so that a copy is near in the averages.
        bounds = _distances(self._coarse[rows], self._coarse)
        bounds[np.arange(len(rows)), rows] = np.inf
        num_others = min(_NUM_CANDIDATES, bounds.shape[1] - 1)
        candidates = np.sort(np.argpartition(bounds, num_others - 1, axis=1)[:, :num_others])
        for row, others in zip(rows.tolist(), candidates, strict=True):
            squares = ((self._fine[others] - self._fine[row]) ** 2).mean(axis=1, dtype=np.float64)
            distances = np.sqrt(squares)
            best = distances.argmin()
            self.place[row], self.distance[row] = others[best], distances[best]
            is_earlier = others < row
            if is_earlier.any():
                best = np.where(is_earlier, distances, np.inf).argmin()
                self.earlier[row], self.earlier_distance[row] = others[best], distances[best]

    @property
    def limit(self) -> float:
        """The distance up to which an episode is a duplicate."""
        if len(self.distance) < MIN_EPISODES:
            return COPY_DISTANCE
        usual = float(np.median(self.distance))
        return max(COPY_DISTANCE, min(NEAR_DISTANCE, NEAR_SHARE * usual))


def duplicate_findings(
    neighbors: Neighbors, episodes: np.ndarray
) -> Iterator[tuple[int, QualityFinding]]:
    """Episodes, given by number, that repeat an earlier one."""
    is_copy = neighbors.earlier_distance <= neighbors.limit
    # Where most are alike, that is how the dataset was made, and no fault of single episodes.
    is_exception = float(is_copy.mean()) <= MAX_COPIES if len(is_copy) else False
    for place in np.flatnonzero(is_copy).tolist():
        distance = float(neighbors.earlier_distance[place])
        earlier = int(episodes[neighbors.earlier[place]])
        message = (
            f"repeats episode {earlier}: the trajectories differ by {distance:.2%} of the range"
        )
        yield place, QualityFinding(Fault.DUPLICATE, message, distance, is_exception)


def _distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Root-mean-square distances of all pairs."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    distances: np.ndarray = np.sqrt(np.maximum(squares, 0) / one.shape[1])
    return distances
