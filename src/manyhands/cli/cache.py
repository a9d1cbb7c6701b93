"""`manyhands cache`: build, list and clear the cache of decoded frames."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyhands import units
from manyhands.cli.flags import read_config, write_results
from manyhands.config.commands.cache import CacheBuildConfig, CacheContentsConfig
from manyhands.config.paths.output import folder_fault
from manyhands.config.schema.help import usage_text
from manyhands.errors import ConfigError, DatasetError, EnvironmentFault
from manyhands.observe.console import progress_bar
from manyhands.observe.fitted_tables import print_table
from manyhands.observe.wrapping import print_wrapped

if TYPE_CHECKING:
    from manyhands.data.cache.contents import StoreSummary
    from manyhands.data.episodes import Source
    from manyhands.data.read_options import ReadOptions

USAGE = """manyhands cache build --dataset.root=DIR [--cache.max_disk=50GiB] [--flag=value ...]
manyhands cache show
manyhands cache clear [--dataset.root=DIR]

Frames are decoded once and cached for all runs of this machine. build decodes them ahead on all
cores and resumes where it stopped; show lists the cache; clear deletes it."""


def cache_command(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage_text(USAGE))
        return 0 if arguments else 2
    subcommand, *rest = arguments
    match subcommand:
        case "build":
            return build(read_config(CacheBuildConfig, USAGE, rest))
        case "show":
            return show(read_config(CacheContentsConfig, USAGE, rest))
        case "clear":
            return clear_stores(read_config(CacheContentsConfig, USAGE, rest))
    raise ConfigError(f"cache {subcommand} is unknown; choose from build, show and clear")


def build(config: CacheBuildConfig) -> int:
    """Decode the frames of a dataset that are not cached yet."""
    from manyhands.cores import num_cores
    from manyhands.data.cache.fill import build_cache
    from manyhands.data.cache.frame_cache import cache_options
    from manyhands.data.location import shared_home

    fault = folder_fault("--cache.folder", config.cache.folder or shared_home())
    if fault is not None:
        raise EnvironmentFault(fault)
    options, num_workers = cache_options(config.on_disk, max_ram=None), config.num_workers
    started = time.monotonic()
    source, reading = wanted_frames(config)
    with progress_bar("decoding frames") as on_progress:
        done, reason = build_cache(
            source, reading, options, num_workers or num_cores(), on_progress
        )
    wall_s = time.monotonic() - started
    print_wrapped(
        f"{done.num_frames:,} frames checked, {done.num_decoded:,} of them decoded in "
        f"{units.duration(wall_s)}; {reason}",
        sys.stdout,
    )
    write_results(config.json, vars(done) | {"reason": reason, "wall_s": wall_s})
    if done.faults:
        raise DatasetError("\n".join(done.faults))
    return 0


def wanted_frames(config: CacheBuildConfig) -> tuple["Source", "ReadOptions"]:
    """Select the episodes and cameras to decode."""
    from manyhands.data.episodes import Source, select_episodes
    from manyhands.data.location import locate_dataset
    from manyhands.data.read_options import ReadOptions
    from manyhands.lerobot_format.dataset.meta import read_dataset_meta

    dataset = config.dataset
    root = locate_dataset(dataset.repo_id, dataset.root, dataset.revision)
    meta = read_dataset_meta(root)
    cameras = [key for key, feature in meta.info.features.items() if feature.is_camera]
    unknown = [key for key in config.cameras or () if key not in cameras]
    if unknown:
        raise ConfigError(
            f"--cameras: {', '.join(unknown)} not found; choose from {', '.join(cameras)}"
        )
    skip = [key for key in cameras if config.cameras is not None and key not in config.cameras]
    reading = ReadOptions(
        skip=skip, image_size=dataset.image_size, depth_unit=dataset.depth_output_unit
    )
    source = Source(root, meta, select_episodes(meta.episodes, dataset.episodes))
    return usable_frames(source, [key for key in cameras if key not in skip], config), reading


def usable_frames(source: "Source", cameras: list[str], config: CacheBuildConfig) -> "Source":
    """The source with the files it needs, or without episodes that lack some."""
    from manyhands.data.checking.remedies import Avoidance
    from manyhands.data.checking.usable_episodes import SKIP, check_files, without_bad_episodes
    from manyhands.data.location import shared_home

    avoidance = Avoidance(exclude_flag=None)
    if config.dataset.on_bad != SKIP:
        check_files(source, cameras, avoidance)
        return source
    home = config.cache.folder or shared_home()
    usable, note = without_bad_episodes(source, cameras, home, avoidance)
    if note:
        print(note)
    return usable


def show(config: CacheContentsConfig) -> int:
    """List the cached datasets."""
    stores = [
        store for home in cache_roots(config) for store in find_stores(home, config.dataset.root)
    ]
    if stores:
        names = ("dataset", "camera", "size", "as", "frames", "bytes", "last used")
        print_table(names, [[*store_cells(store)] for store in stores], num_keys=2)
    total = sum(store.disk_bytes for store in stores)
    print(f"{units.num_bytes(total)} in {', '.join(map(str, cache_roots(config)))}")
    rows = [vars(store) | {"folder": str(store.folder)} for store in stores]
    write_results(config.json, {"stores": rows, "disk_bytes": total})
    return 0


def store_cells(store: "StoreSummary") -> Iterator[str]:
    """Yield the cells of a cached camera."""
    for name in ("dataset", "camera", "size"):
        yield str(store.description.get(name, "?"))
    yield store.encoding
    yield f"{store.num_present:,} of {store.num_frames:,}"
    yield units.num_bytes(store.disk_bytes)
    yield f"{units.duration(time.time() - store.last_used)} ago"


def clear_stores(config: CacheContentsConfig) -> int:
    """Remove cached frames; running jobs keep the files that they have open."""
    from manyhands.data.cache.contents import clear

    freed = 0
    for home in cache_roots(config):
        keys = [store.key for store in find_stores(home, config.dataset.root)]
        freed += clear(home, keys if config.dataset.root is not None else None)
    print(f"{units.num_bytes(freed)} freed")
    write_results(config.json, {"freed_bytes": freed})
    return 0


def cache_roots(config: CacheContentsConfig) -> list[Path]:
    """The cache folders: on disk, and in memory for the duration of a run."""
    from manyhands.data.cache.locations import ram_folder
    from manyhands.data.location import shared_home

    in_memory = None if config.cache.folder is not None else ram_folder()
    return [path for path in (config.cache.folder or shared_home(), in_memory) if path is not None]


def find_stores(home: Path, dataset: Path | None) -> list["StoreSummary"]:
    """The cached frames of one dataset, or of all."""
    from manyhands.data.cache.contents import cached_stores

    name = None if dataset is None else str(dataset.resolve())
    return [
        store
        for store in cached_stores(home)
        if name is None or store.description.get("dataset") == name
    ]
