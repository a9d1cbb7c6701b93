"""Frame caches of all cameras of all datasets: planned together, opened one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from manyhands.config.train import CacheConfig
from manyhands.data.build_columns import image_source
from manyhands.data.cache.budget import (
    CacheRequest,
    CameraNeed,
    Mode,
    Place,
    free_space,
    plan_cache,
)
from manyhands.data.cache.camera import CachedCamera
from manyhands.data.cache.contents import cached_stores
from manyhands.data.cache.identity import PixelOrigin, file_digests, store_key
from manyhands.data.cache.locations import ram_folder
from manyhands.data.cache.store import CacheStores, FrameStore
from manyhands.data.cache.store_files import Encoding, StoreSpec
from manyhands.data.columns import ArrayColumn
from manyhands.data.episodes import Source
from manyhands.data.images.cameras import CameraColumn, ImageSource
from manyhands.data.location import shared_home
from manyhands.data.read_options import ReadOptions
from manyhands.units import parse_bytes

JPEG_SHARE = 8  # How many times smaller a frame is expected to be as JPEG


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Settings of the cache."""

    home: Path
    mode: Mode = "auto"
    encoding: Encoding = "raw"
    max_disk: int | None = None  # Most bytes of disk; None leaves it to the plan
    max_ram: int | None = None  # Most bytes of memory; None leaves it to the plan


def cache_options(config: CacheConfig, max_ram: int | None) -> CacheOptions:
    """The settings of a config."""
    return CacheOptions(
        home=config.folder or shared_home(),
        mode=cast(Mode, config.mode),
        encoding=cast(Encoding, config.encoding),
        max_disk=parse_bytes(config.max_disk) if config.max_disk else None,
        max_ram=max_ram,
    )


@dataclass(frozen=True)
class FrameCaches(CacheStores):
    """A cache for every dataset, and the reason of the plan."""

    caches: list["FrameCache | None"]
    reason: str
    where: Place = "off"
    capacity: float = 0.0
    """Fraction of all frames that may be cached."""

    @property
    def facts(self) -> dict[str, Any]:
        """Where frames are cached, and the fractions that may be and that are cached."""
        cached = [cache.num_cached for cache in self.caches if cache is not None]
        num_cached, num_frames = (sum(counts) for counts in zip((0, 0), *cached, strict=True))
        filled = num_cached / max(1, num_frames)
        return {"where": self.where, "capacity": self.capacity, "filled": filled}

    @property
    def stores(self) -> list[FrameStore]:
        """The stores of all caches that are on disk."""
        return [store for cache in self.caches if cache is not None for store in cache.stores]


class FrameCache:
    """The cached frames of one dataset's cameras."""

    def __init__(
        self, source: Source, options: CacheOptions, budgets: dict[str, int], in_ram: bool
    ) -> None:
        self._source = source
        self._options = options
        self._budgets = budgets  # Most bytes by camera
        self._in_ram = in_ram
        self._stores: dict[str, FrameStore] = {}
        self._cameras: dict[str, CachedCamera] = {}
        self.faults: list[str] = []  # Why cameras are read without their store

    @property
    def cameras(self) -> list[CachedCamera]:
        """The cameras that were opened."""
        return list(self._cameras.values())

    @property
    def num_cached(self) -> tuple[int, int]:
        """Frames of the chosen episodes that are cached, and all of them; over all cameras."""
        frames = np.concatenate([np.arange(*bounds) for bounds in self.frame_bounds])
        num_missing = sum(len(camera.missing(frames)) for camera in self.cameras)
        num_frames = len(frames) * len(self.cameras)
        return num_frames - num_missing, num_frames

    @property
    def frame_bounds(self) -> np.ndarray:
        """Frames [first, end) of each chosen episode."""
        return self._source.selection.frame_bounds

    def column(self, key: str, source: ImageSource, drops_single_axis: bool) -> ArrayColumn:
        """A camera's column that reads through the cache."""
        home = ram_folder() if self._in_ram else self._options.home
        assert home is not None
        try:
            if key not in self._stores:
                spec = store_spec(self._source, key, source, self._options)
                self._stores[key] = FrameStore(home, spec, self._budgets[key], self._in_ram)
        except OSError as error:
            self.faults.append(f"cannot cache frames of {key}: {error}")
            return CameraColumn(source, drops_single_axis)
        self._cameras[key] = CachedCamera(source, self._stores[key], drops_single_axis)
        return self._cameras[key]

    @property
    def stores(self) -> list[FrameStore]:
        """The stores of cameras that were opened, if they are on disk."""
        return [] if self._in_ram else list(self._stores.values())


def store_spec(source: Source, key: str, pictures: ImageSource, options: CacheOptions) -> StoreSpec:
    """The specification of a store of a camera's frames."""
    present = [path for path in pictures.paths if path.is_file()]
    digests = dict(zip(present, file_digests(present, options.home), strict=True))
    encoding = camera_encoding(pictures, options)
    origin = PixelOrigin(
        file_digests=[digests.get(path, "missing") for path in pictures.paths],
        table_digest=blake2b(pictures.layout(), digest_size=16).hexdigest(),
        shape=pictures.shape,
        dtype=str(pictures.dtype),
        encoding=encoding,
    )
    return StoreSpec(
        key=store_key(origin),
        shape=pictures.shape,
        dtype=pictures.dtype,
        num_frames=int(source.meta.episodes.to_index[-1]),
        encoding=encoding,
        description=description_of(source, key, pictures),
    )


def plan_frame_caches(
    sources: Sequence[tuple[Source, ReadOptions]], options: CacheOptions
) -> FrameCaches:
    """Decide which frames of all datasets are cached, and where."""
    cameras = [(source, cameras_of(source, reading)) for source, reading in sources]
    each = [(source, key, pictures) for source, own in cameras for key, pictures in own.items()]
    needs = [_need(source, pictures, options) for source, _, pictures in each]
    described = [description_of(*camera) for camera in each]
    plan = plan_cache(request_for(needs, described, options))
    if plan.where == "off":
        return FrameCaches([None] * len(sources), plan.reason)
    budgets = iter(zip(plan.capacities, plan.max_bytes, strict=True))
    caches: list[FrameCache | None] = []
    for source, own in cameras:
        max_bytes = {key: _camera_bytes(source, own[key], options, *next(budgets)) for key in own}
        caches.append(FrameCache(source, options, max_bytes, plan.where == "ram"))
    capacity = sum(plan.capacities) / sum(need.num_frames for need in needs)
    return FrameCaches(caches, plan.reason, plan.where, capacity)


def camera_encoding(source: ImageSource, options: CacheOptions) -> Encoding:
    """Encoding of a camera's cached frames: only colors can be JPEG."""
    is_color = source.dtype.kind == "u" and source.shape[0] == 3
    return options.encoding if is_color else "raw"


def description_of(source: Source, key: str, pictures: ImageSource) -> dict[str, str]:
    """Description of a camera's frames for users."""
    height, width = pictures.shape[1:]
    return {"dataset": str(source.root.resolve()), "camera": key, "size": f"{height}x{width}"}


def cameras_of(source: Source, reading: ReadOptions) -> dict[str, ImageSource]:
    """The cameras of a dataset that are read."""
    return {
        key: image_source(source, reading, key)
        for key, feature in source.meta.info.features.items()
        if feature.is_camera and key not in reading.skip
    }


def _need(source: Source, pictures: ImageSource, options: CacheOptions) -> CameraNeed:
    size = prod(pictures.shape) * pictures.dtype.itemsize
    is_jpeg = camera_encoding(pictures, options) == "jpeg"
    return CameraNeed(source.selection.num_rows, size // JPEG_SHARE if is_jpeg else size)


def request_for(
    needs: list[CameraNeed], described: list[dict[str, str]], options: CacheOptions
) -> CacheRequest:
    """The request that decides about some cameras; `described` names them for users."""
    stores = cached_stores(options.home) if options.mode != "off" else []
    own = [store.disk_bytes for store in stores if store.description in described]
    return CacheRequest(
        mode=options.mode,
        cameras=tuple(needs),
        free=free_space(options.home, ram_folder()),
        cached_bytes=sum(own),
        other_bytes=sum(store.disk_bytes for store in stores) - sum(own),
        max_disk=options.max_disk,
        max_ram=options.max_ram,
    )


def _camera_bytes(
    source: Source, pictures: ImageSource, options: CacheOptions, num_kept: int, max_bytes: int
) -> int:
    """Bytes for one camera, counted as its store counts them."""
    if camera_encoding(pictures, options) == "jpeg":
        return max_bytes
    # Raw frames are at their index in a sparse file: as far as the last cached one.
    size, selection = prod(pictures.shape) * pictures.dtype.itemsize, source.selection
    if num_kept >= selection.num_rows:
        return int(source.meta.episodes.to_index[-1]) * size
    return int(selection.frames(np.array([num_kept]))[0]) * size
