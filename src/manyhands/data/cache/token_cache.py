"""Vision tokens of datasets' frames: cached like frames, and read instead of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from manyhands.data.cache.budget import CameraNeed, plan_cache
from manyhands.data.cache.frame_cache import CacheOptions, cameras_of, request_for, store_spec
from manyhands.data.cache.locations import ram_folder
from manyhands.data.cache.store import CacheStores, FrameStore
from manyhands.data.cache.store_files import StoreSpec
from manyhands.data.columns import ArrayColumn
from manyhands.data.episodes import Source
from manyhands.data.images.cameras import ImageSource
from manyhands.data.read_options import ReadOptions
from manyhands.errors import EnvironmentFault

NUM_SHOWN = 8  # Displayed characters of a digest


@dataclass(frozen=True)
class TokenSpec:
    """The tokens of one frame of a camera."""

    identity: str  # A digest of all that determines them except the frame
    shape: tuple[int, ...]
    dtype: np.dtype


Forms = Mapping[str, TokenSpec]  # By the name that a camera is delivered under


class TokenColumn:
    """A camera of which tokens are read; all of them must be there."""

    def __init__(self, store: FrameStore, drops_single_axis: bool) -> None:
        self.shape = store.spec.shape
        self.dtype = store.spec.dtype
        self.drops_single_axis = drops_single_axis
        self._store = store

    def read_into(self, frames: np.ndarray, out: np.ndarray) -> None:
        """Write the tokens of an array of frames, whose axes come first, into `out`."""
        flat = frames.reshape(-1)
        is_there = self._store.gather(flat, out.reshape(len(flat), *self.shape))
        if not is_there.all():
            raise EnvironmentFault(
                f"{self._store.folder} lacks the tokens of frame {flat[~is_there][0]}, which "
                "existed at the start. Restart the run to recreate them"
            )


class TokenCache:
    """The cached tokens of one dataset's cameras."""

    def __init__(self, stores: dict[str, FrameStore], in_ram: bool) -> None:
        self.of_camera = stores  # By the dataset's own names
        self._in_ram = in_ram

    def column(self, key: str, source: ImageSource, drops_single_axis: bool) -> ArrayColumn:
        """A camera's column of tokens instead of images."""
        return TokenColumn(self.of_camera[key], drops_single_axis)

    @property
    def stores(self) -> list[FrameStore]:
        """The stores that are on disk."""
        return [] if self._in_ram else list(self.of_camera.values())


@dataclass(frozen=True)
class TokenCaches(CacheStores):
    """A cache for every dataset."""

    caches: list[TokenCache]

    @property
    def stores(self) -> list[FrameStore]:
        """The stores of all caches that are on disk."""
        return [store for cache in self.caches for store in cache.stores]


@dataclass(frozen=True)
class TokenPlan:
    """Location of the cached tokens of some datasets."""

    specs: list[dict[str, StoreSpec]]  # By dataset, and by camera under the dataset's own names
    where: str  # off, ram or disk
    options: CacheOptions
    reason: str

    def opened(self) -> TokenCaches:
        """The stores of all cameras."""
        in_ram = self.where == "ram"
        home = ram_folder() if in_ram else self.options.home
        assert home is not None and self.where != "off"
        caches = []
        try:
            for specs in self.specs:
                sizes = {key: spec.num_frames * spec.frame_bytes for key, spec in specs.items()}
                stores = {key: FrameStore(home, specs[key], sizes[key], in_ram) for key in specs}
                caches.append(TokenCache(stores, in_ram))
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write vision tokens to {home}: {error}. Set another --cache.folder"
            ) from None
        return TokenCaches(caches)


def plan_token_caches(
    sources: Sequence[tuple[Source, ReadOptions]], forms: Forms, options: CacheOptions
) -> TokenPlan:
    """Decide whether and where the tokens of all frames are cached; a fraction is useless."""
    # Tokens are made from frames as recorded, however the frame cache encodes them.
    options = replace(options, encoding="raw")
    specs = [
        {
            key: _token_spec(
                store_spec(source, key, pictures, options), forms[reading.delivered(key)]
            )
            for key, pictures in cameras_of(source, reading).items()
        }
        for source, reading in sources
    ]
    needs = [
        CameraNeed(source.selection.num_rows, spec.frame_bytes)
        for (source, _), own in zip(sources, specs, strict=True)
        for spec in own.values()
    ]
    described = [spec.description for own in specs for spec in own.values()]
    request = replace(
        request_for(needs, described, options),
        what="vision tokens",
        otherwise="vision tokens are not cached, images are encoded every time",
        all_or_nothing=True,
    )
    plan = plan_cache(request)
    return TokenPlan(specs, plan.where, options, plan.reason)


def _token_spec(frames: StoreSpec, form: TokenSpec) -> StoreSpec:
    """The store of tokens of the frames that another store would hold."""
    identity = f"{frames.key} {form.identity}"
    size = f"{'x'.join(map(str, form.shape))} tokens of {form.identity[:NUM_SHOWN]}"
    return StoreSpec(
        key=blake2b(identity.encode(), digest_size=len(frames.key) // 2).hexdigest(),
        shape=form.shape,
        dtype=form.dtype,
        num_frames=frames.num_frames,
        description=frames.description | {"size": size},
    )
