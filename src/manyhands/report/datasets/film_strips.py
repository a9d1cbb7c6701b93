"""Film strips: images of each camera, spread evenly over an episode."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manyhands.data.build_columns import image_source
from manyhands.data.checking.finding import error_message
from manyhands.data.episodes import Selection, Source
from manyhands.data.images.cameras import ImageSource
from manyhands.data.images.formats import Size
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.report.datasets.dataset_files import DatasetFiles, Progress
from manyhands.report.media import Allowance, image_uri, still_places
from manyhands.report.text import clipped

STRIP_HEIGHT = 96
FEWEST_IMAGES = 3
ALL_IMAGES = 600  # On one page
DECODE_S = 120.0  # Time for all strips of a page
NEAR, FAR = 2, 98  # Percent of a depth image's distances that its shades of gray span


@dataclass(frozen=True)
class Strip:
    """The images of one camera in one episode, or why there are none."""

    camera: str
    images: Sequence[str] = ()
    fault: str = ""


def images_per_strip(num_strips: int, most: int) -> int:
    """As many images as fit into a page, but enough to see a motion."""
    fitting = max(FEWEST_IMAGES, ALL_IMAGES // max(1, num_strips))
    return min(most, fitting)


def film_strips(
    dataset: DatasetFiles,
    episodes: Sequence[int],
    allowance: Allowance,
    num_images: int,
    on_progress: Progress,
) -> dict[int, list[Strip]]:
    """The strips of episodes, in the order in which they are shown."""
    table, end = dataset.meta.episodes, time.monotonic() + DECODE_S
    cameras = _cameras(dataset) if num_images else {}
    count = images_per_strip(len(episodes) * len(cameras), num_images)
    found: dict[int, list[Strip]] = {}
    for done, episode in enumerate(episodes):
        on_progress(done, len(episodes))
        frames = np.array(still_places(int(table.lengths[episode]), count), np.int64)
        found[episode] = [
            _strip(dataset, key, source, frames + table.from_index[episode], allowance)
            if time.monotonic() < end
            else Strip(key, fault="not decoded: the page would take too long")
            for key, source in cameras.items()
        ]
    return found


def _cameras(dataset: DatasetFiles) -> dict[str, ImageSource]:
    features = dataset.meta.info.features
    # Files of selected episodes must exist; here a missing one is the fault of a single strip.
    none = Selection(np.zeros(0, np.int64), np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
    source = Source(dataset.root, dataset.meta, none)
    return {
        key: image_source(source, ReadOptions(image_size=strip_size(feature)), key)
        for key, feature in features.items()
        if feature.is_camera
    }


def strip_size(feature: Feature) -> Size:
    """Height and width of an image of a strip, with the proportions of its camera."""
    _, height, width = feature.channel_first_shape
    scale = min(1.0, STRIP_HEIGHT / height)
    return max(1, round(height * scale)), max(1, round(width * scale))


def _strip(
    dataset: DatasetFiles,
    key: str,
    source: ImageSource,
    frames: np.ndarray,
    allowance: Allowance,
) -> Strip:
    try:
        images = [image_uri(shown_pixels(each)) for each in source.pictures(frames)]
    except (DatasetError, OSError) as error:
        return Strip(key, fault=clipped(error_message(error, str(dataset.root)), 300))
    if not allowance.takes(*images):
        return Strip(key, fault="not shown: the page would exceed its size")
    return Strip(key, images)


def shown_pixels(image: np.ndarray) -> np.ndarray:
    """An image (channels, height, width) as colors (height, width, 3); distances become gray."""
    colors = image[:3] if len(image) >= 3 else image[:1].repeat(3, axis=0)
    if colors.dtype != np.uint8:
        known = colors[np.isfinite(colors)]
        near, far = np.percentile(known, [NEAR, FAR]) if len(known) else (0.0, 0.0)
        shades = (colors - near) / max(far - near, 1e-9)
        colors = (255 * np.nan_to_num(shades).clip(0, 1)).astype(np.uint8)
    return np.ascontiguousarray(colors.transpose(1, 2, 0))
