"""The episode being recorded: frames checked, images encoded as they come."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from manyhands.data.images.encoder import ClipEncoder
from manyhands.data.images.image_files import encode_png
from manyhands.data.images.packets import Clip
from manyhands.data.statistics import image_stats, number_stats, sampled_frames, subsampled
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.types import Stats


class EpisodeRecording:
    """Frames of one episode; video is encoded at once, so that memory holds no raw images."""

    def __init__(self, fps: int, features: Mapping[str, Feature]) -> None:
        self._features = {
            key: feature for key, feature in features.items() if key not in names.RESERVED_FEATURES
        }
        self.tasks: list[str] = []
        self._values: dict[str, list[Any]] = {key: [] for key in self._features}
        self._thinned: dict[str, list[np.ndarray]] = {
            key: [] for key, feature in self._features.items() if feature.is_camera
        }
        self._clips: dict[str, ClipEncoder] = {}
        for key, feature in self._features.items():
            if feature.dtype == names.VIDEO:
                _, height, width = feature.channel_first_shape
                self._clips[key] = ClipEncoder(fps, height, width)

    def __len__(self) -> int:
        return len(self.tasks)

    def add(self, frame: Mapping[str, Any]) -> None:
        """Append a frame; a faulty one is rejected completely."""
        checked = self._checked(frame)
        self.tasks.append(frame[names.TASK])
        for key, value in checked.items():
            feature = self._features[key]
            if feature.is_camera:
                self._thinned[key].append(subsampled(value).copy())
            if feature.dtype == names.VIDEO:
                self._clips[key].add(value)
            else:
                self._values[key].append(encode_png(value) if feature.is_camera else value)

    def columns(self) -> dict[str, Any]:
        """The table's columns that come from the frames."""
        return {
            key: np.stack(values) if self._features[key].is_number else values
            for key, values in self._values.items()
            if key not in self._clips
        }

    def clips(self) -> dict[str, Clip]:
        """The videos by camera."""
        return {key: clip.finish() for key, clip in self._clips.items()}

    def stats(self, columns: Mapping[str, Any]) -> Stats:
        """Statistics of all cameras and of every numeric column."""
        chosen = sampled_frames(len(self))
        cameras = {
            key: image_stats([pictures[number] for number in chosen])
            for key, pictures in self._thinned.items()
        }
        numbers = {
            key: number_stats(values)
            for key, values in columns.items()
            if isinstance(values, np.ndarray)
        }
        return cameras | numbers

    def _checked(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        expected = {*self._features, names.TASK}
        for fault, keys in (
            ("lacks", expected - set(frame)),
            ("has unknown", set(frame) - expected),
        ):
            if keys:
                raise DatasetError(f"frame {len(self)} {fault} {', '.join(sorted(keys))}")
        if not isinstance(frame[names.TASK], str):
            raise DatasetError(
                f"frame {len(self)}: task must be a string, not {frame[names.TASK]!r}"
            )
        return {
            key: _checked_value(f"frame {len(self)}: {key}", frame[key], feature)
            for key, feature in self._features.items()
        }


def _checked_value(where: str, value: Any, feature: Feature) -> Any:
    if feature.dtype == names.STRING:
        if not isinstance(value, str):
            raise DatasetError(f"{where} must be a string, not {value!r:.60}")
        return value
    array = np.asarray(value)
    dtype = "uint8" if feature.is_camera else feature.dtype
    if array.dtype != np.dtype(dtype):
        raise DatasetError(f"{where} must have dtype {dtype}, not {array.dtype}")
    if feature.is_camera:
        return _checked_picture(where, array, feature)
    if array.shape == () and feature.shape == (1,):
        return array.reshape(1)
    if array.shape != feature.shape:
        raise DatasetError(f"{where} must have shape {feature.shape}, not {array.shape}")
    return array.copy()


def _checked_picture(where: str, array: np.ndarray, feature: Feature) -> np.ndarray:
    """An image as (height, width, channels), which is also accepted where it is declared CHW."""
    channels, height, width = feature.channel_first_shape
    if array.shape == (height, width, channels):
        return array
    if array.shape == feature.shape:
        return array.transpose(1, 2, 0)
    raise DatasetError(f"{where} must have shape {feature.shape}, not {array.shape}")
