"""A dataset written by one side reads the same on both, item by item."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison import Comparison
from conversion import convert_frames
from recordings import (
    FPS,
    convert,
    convert_from_version_2,
    features_of,
    import_hdf5,
    record_ours,
    record_theirs,
    repair,
)
from safetensors.torch import load_file
from torch import Tensor

from manyhands import open_dataset
from manyhands.data.images.video import VideoReader
from manyhands.data.statistics import compute_stats
from manyhands.lerobot_format.dataset.meta import read_dataset_meta
from manyhands.types import Stats

CAMERAS = tuple(key for key, each in features_of("video").items() if each["dtype"] == "video")
WINDOWS = {
    "observation.state": [-1, 0],
    "observation.images.top": [-2, 0, 1],
    "observation.count": [0],
    "next.reward": [0, 1],
    "action": [-1, 0, 1, 2, 3],
}
LEVELS = 255
ROUNDING = 1e-5
"""LeRobot adds up in single precision, which shows where a mean is close to zero."""
PIXEL_DEVIATION = 5e-4
"""Sums of many squares in single precision lose more; our deviations are the exact ones."""

Builder = Callable[[Path, Any], None]


def merge_ours(root: Path, lerobot: Any) -> None:
    """A recording of ours and one of theirs, merged by us."""
    sources = both_recordings(root, lerobot)
    convert(root, f"--merge=[{','.join(map(str, sources))}]")


def merge_theirs(root: Path, lerobot: Any) -> None:
    """A recording of ours and one of theirs, merged by LeRobot."""
    lerobot("merge", roots=both_recordings(root, lerobot), out=root)


def both_recordings(root: Path, lerobot: Any) -> tuple[Path, Path]:
    ours, theirs = root.with_name("ours"), root.with_name("theirs")
    record_ours(ours, "video")
    record_theirs(theirs, "video", lerobot)
    return ours, theirs


def without_an_episode(root: Path, lerobot: Any) -> None:
    """A recording of ours without its second episode."""
    whole = root.with_name("whole")
    record_ours(whole, "video")
    convert(root, f"--dataset.root={whole}", "--exclude_episodes=[1]")


DATASETS: dict[str, Builder] = {
    "videos recorded here": lambda root, _: record_ours(root, "video"),
    "images recorded here": lambda root, _: record_ours(root, "image"),
    "converted here from v2.1": lambda root, _: convert_from_version_2(root),
    "an episode removed here": without_an_episode,
    "imported here from HDF5": lambda root, _: import_hdf5(root),
    "repaired here": lambda root, _: repair(root),
    "merged here, ours and theirs": merge_ours,
    "videos recorded by LeRobot": lambda root, lerobot: record_theirs(root, "video", lerobot),
    "images recorded by LeRobot": lambda root, lerobot: record_theirs(root, "image", lerobot),
    "merged by LeRobot, ours and theirs": merge_theirs,
}


@pytest.mark.parametrize("name", DATASETS)
def test_every_item_reads_the_same_on_both_sides(name, lerobot, compared, tmp_path):
    root = tmp_path / "dataset"
    DATASETS[name](root, lerobot)
    reading = Reading(lerobot, root)
    compare_items(f"{name}, frame by frame", reading, compared)
    compare_items(f"{name}, with windows", replace(reading, windows=WINDOWS), compared)
    assert compared.faults() == []


def test_chosen_episodes_read_the_same_on_both_sides(lerobot, compared, tmp_path):
    record_ours(tmp_path / "dataset", "video")
    reading = Reading(lerobot, tmp_path / "dataset", windows=WINDOWS, episodes=[2, 0])
    compare_items("episodes 2 and 0 of videos recorded here", reading, compared)
    assert compared.faults() == []


@dataclass(frozen=True)
class Reading:
    """All items of a dataset, read by either side."""

    lerobot: Callable[..., Any]
    root: Path
    windows: Mapping[str, list[int]] = field(default_factory=dict)
    episodes: list[int] | None = None

    def theirs(self) -> tuple[dict[str, Tensor], list[dict[str, str]]]:
        """LeRobot's items by `<item>/<key>`, and their texts."""
        out = self.root.with_name("items.safetensors")
        seconds = {key: [each / FPS for each in offsets] for key, offsets in self.windows.items()}
        wanted = {"windows": seconds or None, "episodes": self.episodes}
        texts = self.lerobot("read_items", root=self.root, out=out, **wanted)["texts"]
        return load_file(out), texts

    def ours(self) -> tuple[dict[str, Tensor], list[dict[str, str]]]:
        """Our items; stored images as floats, which is how LeRobot has them in any case."""
        dataset = open_dataset(root=self.root, windows=self.windows, episodes=self.episodes)
        items = [dataset[number] for number in range(len(dataset))]
        stored = {key for key, each in dataset.features.items() if each.dtype == "image"}
        tensors = {
            f"{number}/{key}": value.float() / 255 if key in stored else value
            for number, item in enumerate(items)
            for key, value in item.items()
            if isinstance(value, Tensor)
        }
        return tensors, [
            {key: each for key, each in item.items() if isinstance(each, str)} for item in items
        ]


def compare_items(label: str, reading: Reading, compared: Comparison) -> None:
    """Numbers and texts must be equal, with the same names, types and shapes.

    Pixels of videos may differ by as many levels as LeRobot's conversion of the same files to RGB
    differs from the bit-exact one. Stored images are equal.
    """
    (ours, our_texts), (theirs, their_texts) = reading.ours(), reading.theirs()
    pixels, numbers = zip(*map(parted, (ours, theirs)), strict=True)
    frames = convert_frames(reading.root, reading.lerobot)
    compared(f"{label}: pixels, in levels", *pixels, frames.largest_difference, scale=1)
    compared(f"{label}: numbers", *numbers)
    compared.same(f"{label}: texts", our_texts, their_texts)


def parted(values: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The pixels, and all that is not."""
    pixels = {name: value for name, value in values.items() if name.endswith(CAMERAS)}
    return pixels, {name: value for name, value in values.items() if name not in pixels}


@pytest.mark.parametrize("writer", ["manyhands", "LeRobot"])
def test_our_frames_are_the_bit_exact_ones(writer, lerobot, compared, tmp_path):
    root, label = tmp_path / "dataset", f"videos recorded by {writer}"
    if writer == "manyhands":
        record_ours(root, "video")
    else:
        record_theirs(root, "video", lerobot)
    frames, reader = convert_frames(root, lerobot), VideoReader(FPS)
    decoded = {
        path: reader.frames(root / path, np.arange(len(each)))
        for path, each in frames.bit_exact.items()
    }
    ours = {path: torch.from_numpy(np.stack(list(each))) for path, each in decoded.items()}
    compared(f"{label}: pixels converted bit-exactly", ours, frames.bit_exact)
    # Else another frame could pass for the right one.
    is_telling = frames.largest_difference < frames.least_change
    compared.same(f"{label}: frames differ by more than their conversion", is_telling, True)
    assert compared.faults() == []


@pytest.mark.parametrize("storage", ["video", "image"])
def test_both_sides_compute_the_same_statistics_of_decoded_frames(
    storage, lerobot, compared, tmp_path
):
    root, label = tmp_path / "dataset", f"statistics of decoded {storage}s"
    record_ours(root, storage)
    computed = compute_stats(open_dataset(root=root), CAMERAS, lambda done, total: None)
    ours, theirs = flattened(computed), lerobot("compute_camera_stats", root=root)
    compared.same(f"{label}: names", sorted(ours), sorted(theirs))
    # No mean, deviation, extreme or quantile changes by more than the pixels do.
    bound = convert_frames(root, lerobot).largest_difference / LEVELS
    tolerances = {"count": 0.0, "std": bound + PIXEL_DEVIATION}
    for kind in dict.fromkeys(name.rpartition(" ")[2] for name in theirs):
        pair = (of_kind(kind, side) for side in (ours, theirs))
        compared(f"{label}: {kind}", *pair, tolerances.get(kind, bound + ROUNDING), scale=1)
    assert compared.faults() == []


def of_kind(kind: str, stats: dict[str, list[float]]) -> dict[str, Tensor]:
    """The statistics of all features that have this name."""
    return {
        name: torch.tensor(values, dtype=torch.float64)
        for name, values in stats.items()
        if name.endswith(f" {kind}")
    }


@pytest.mark.parametrize("storage", ["video", "image"])
def test_both_sides_compute_the_same_statistics_of_the_same_frames(
    storage, lerobot, compared, tmp_path
):
    record_ours(tmp_path / "ours", storage)
    record_theirs(tmp_path / "theirs", storage, lerobot)
    ours, theirs = (flat_stats(tmp_path / side) for side in ("ours", "theirs"))
    compared.same(f"statistics with {storage}s: names", sorted(ours), sorted(theirs))
    deviations = {name for name in theirs if name.endswith(tuple(f"{key} std" for key in CAMERAS))}
    kinds = {
        "of numbers": ({name for name in theirs if not name.startswith(CAMERAS)}, ROUNDING),
        "of pixels": ({name for name in theirs if name.startswith(CAMERAS)} - deviations, ROUNDING),
        "standard deviation of pixels": (deviations, PIXEL_DEVIATION),
    }
    for kind, (names, tolerance) in kinds.items():
        pair = ([each for name in sorted(names) for each in side[name]] for side in (ours, theirs))
        compared.each(f"statistics with {storage}s, {kind}", *pair, tolerance)
    assert compared.faults() == []


def flat_stats(root: Path) -> dict[str, list[float]]:
    """A dataset's statistics by `<feature> <name>`."""
    return flattened(read_dataset_meta(root).stats)


def flattened(stats: Stats) -> dict[str, list[float]]:
    """Statistics by `<feature> <name>`."""
    return {
        f"{key} {name}": value.ravel().tolist()
        for key, values in stats.items()
        for name, value in values.items()
    }
