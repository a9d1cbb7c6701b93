"""Several datasets read as one, each with its fraction of the samples."""

from collections.abc import Collection, Sequence
from hashlib import blake2b

import numpy as np

from manyhands.data.batches import ArraySpec
from manyhands.data.dataset import Dataset
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.names import RESERVED_FEATURES

DATASET_INDEX = "dataset_index"  # Key of the index of a sample's dataset

INT64 = np.dtype(np.int64)


class Mixture:
    """Samples of several datasets by row; the rows of one follow those of another."""

    def __init__(self, parts: Sequence[Dataset], needed: Collection[str]) -> None:
        _check_alike(parts, needed)
        self.parts = list(parts)
        self.first_rows = np.cumsum([0, *(len(part) for part in parts)])
        first_frames = np.cumsum([0, *(part.meta.episodes.to_index[-1] for part in parts)])
        self._first_frames = first_frames[:-1]
        first, *others = [part.layout(1) for part in parts]
        self._keys = [key for key in first if all(each.get(key) == first[key] for each in others)]
        self._list_keys = [
            key for key in parts[0].list_keys if all(key in part.list_keys for part in parts)
        ]

    @property
    def num_frames(self) -> int:
        """Frames of all datasets."""
        return int(self.first_rows[-1])

    @property
    def num_episodes(self) -> int:
        """Episodes of all datasets."""
        return sum(part.num_episodes for part in self.parts)

    @property
    def fps(self) -> float:
        """Frames per second, the same in all."""
        return self.parts[0].fps

    @property
    def fingerprint(self) -> str:
        """A short hash of all datasets."""
        prints = " ".join(part.fingerprint for part in self.parts)
        return blake2b(prints.encode(), digest_size=8).hexdigest()

    def layout(self, num_samples: int) -> dict[str, ArraySpec]:
        """The arrays that all datasets have alike, and which dataset each sample is from."""
        layout = self.parts[0].layout(num_samples)
        own = {DATASET_INDEX: ArraySpec((num_samples,), INT64)}
        return {key: layout[key] for key in self._keys} | own

    def fill(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, list[object]]:
        """Write the samples at `rows`; `index` counts the frames of all datasets together."""
        places = np.searchsorted(self.first_rows, rows, side="right") - 1
        arrays[DATASET_INDEX][...] = places
        objects: dict[str, list[object]] = {key: [None] * len(rows) for key in self._list_keys}
        for place in np.unique(places):
            samples, part = np.flatnonzero(places == place), self.parts[place]
            specs = part.layout(len(samples))
            own = {key: np.empty(spec.shape, spec.dtype) for key, spec in specs.items()}
            texts = part.fill(rows[samples] - self.first_rows[place], own)
            own[names.INDEX] += self._first_frames[place]
            for key in self._keys:
                arrays[key][samples] = own[key]
            for key in self._list_keys:
                for sample, text in zip(samples, texts[key], strict=True):
                    objects[key][sample] = text
        return objects


def _check_alike(parts: Sequence[Dataset], needed: Collection[str]) -> None:
    """Reject datasets that differ in frame rate or in features that the policy needs."""
    first, layouts = parts[0], [part.layout(1) for part in parts]
    for part, layout in zip(parts[1:], layouts[1:], strict=True):
        if part.fps != first.fps:
            raise DatasetError(
                f"cannot mix {first.root} ({first.fps:g} fps) and {part.root} ({part.fps:g} "
                "fps): frame rates differ"
            )
        for key in needed:
            if key not in layout or key not in layouts[0]:
                lacking, having = (part, first) if key not in layout else (first, part)
                # Unread cameras are named too: one of them may be the intended one.
                found = [name for name in lacking.info.features if name not in RESERVED_FEATURES]
                raise DatasetError(
                    f"{having.root} has {key}, {lacking.root} has {', '.join(found)}. "
                    f'Rename it: --rename_map=\'{{"its_name": "{key}"}}\', or exclude it with '
                    "--policy.input_features"
                )
            if layout[key] != layouts[0][key]:
                seen, other = (_describe(layouts[0][key]), _describe(layout[key]))
                hint = ". Resize cameras: --dataset.image_size=[HEIGHT,WIDTH]"
                is_camera = first.features[key].is_camera
                raise DatasetError(
                    f"{key} is {seen} in {first.root} and {other} in {part.root}"
                    f"{hint if is_camera else ': they cannot be mixed'}"
                )


def _describe(spec: ArraySpec) -> str:
    return f"{spec.dtype} of shape {list(spec.shape[1:])}"
