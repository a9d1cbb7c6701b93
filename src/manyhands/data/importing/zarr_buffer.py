"""The zarr replay buffers of Diffusion Policy: data/NAME with all rows, meta/episode_ends."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from manyhands.data.importing.chunked_rows import chunked_rows, joined_frames
from manyhands.data.importing.packages import required
from manyhands.data.importing.source import Column, Frame, described
from manyhands.errors import DatasetError

FORMAT = "zarr"
_ENDS = "meta/episode_ends"
_DATA = "data"
_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, BadZipFile)


class ZarrBuffer:
    """A replay buffer in a folder or a zip file, of zarr's format 2 or 3."""

    format = FORMAT
    fps: float | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = [path] if path.is_file() else metadata_files(path)
        with _naming(path):
            _register_image_codecs()
            root = _opened(path)
            if _ENDS not in root or _DATA not in root:
                raise DatasetError(f"{path} has no {_ENDS} and {_DATA}, so it is no replay buffer")
            self._ends = np.asarray(root[_ENDS][:], dtype=np.int64)
            self._arrays = _arrays(root)
            self._check_ends()
            self.columns: dict[str, Column] = {
                name: described(array, array[:1][0]) for name, array in self._arrays.items()
            }
            self.notes = [*_missing_chunks(self._arrays)]
        self.num_episodes = len(self._ends)

    def frames(self, episode: int, columns: Collection[str]) -> Iterator[Frame]:
        """Yield the frames of an episode, with the given columns."""
        start = int(self._ends[episode - 1]) if episode else 0
        stop = int(self._ends[episode])
        with _naming(self.path):
            yield from joined_frames(
                {
                    name: chunked_rows(array, start, stop)
                    for name, array in self._arrays.items()
                    if name in columns
                }
            )

    def _check_ends(self) -> None:
        if not self._ends.size or (np.diff(self._ends, prepend=0) <= 0).any():
            raise DatasetError(f"{self.path}: {_ENDS} must count upwards from the first episode")
        for name, array in self._arrays.items():
            if array.shape[0] < self._ends[-1]:
                raise DatasetError(
                    f"{self.path}: {name} has {array.shape[0]} rows, but {_ENDS} counts "
                    f"{self._ends[-1]}"
                )


def is_zarr(path: Path) -> bool:
    """Whether a path is a zarr group, as a folder or a zip file."""
    if path.is_file():
        return path.suffix == ".zip"
    return any((path / name).is_file() for name in (".zgroup", "zarr.json", f"{_DATA}/.zgroup"))


def metadata_files(path: Path) -> list[Path]:
    """The files that describe a folder's arrays; chunks are too many to list."""
    described = [".zgroup", ".zarray", "zarr.json"]
    return sorted(file for name in described for file in path.glob(f"**/{name}"))


def _opened(path: Path) -> Any:
    zarr = required("zarr", "reading zarr replay buffers")
    store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else path
    return zarr.open_group(store, mode="r")


def _arrays(root: Any) -> dict[str, Any]:
    return {f"{_DATA}/{name}": array for name, array in sorted(root[_DATA].arrays()) if array.shape}


def _missing_chunks(arrays: Mapping[str, Any]) -> Iterator[str]:
    """Name arrays of which chunks are absent: zeros that were not stored, or an incomplete copy."""
    for name, array in arrays.items():
        num_missing = array.nchunks - array.nchunks_initialized
        if num_missing:
            fill = array.fill_value
            yield f"{name}: {num_missing} of {array.nchunks} chunks are missing and read as {fill}"


def _register_image_codecs() -> None:
    """Register the codecs of images, which few buffers use, where their package is installed."""
    try:
        from imagecodecs.numcodecs import register_codecs
    except ModuleNotFoundError:
        return
    register_codecs(verbose=False)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        reason = f"{type(error).__name__}: {error}"
        if "imagecodecs" in reason:
            reason += ". Install: pip install imagecodecs"
        raise DatasetError(f"{path} cannot be read as zarr: {reason}") from None
