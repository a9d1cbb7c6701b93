"""Decode a dataset's frames before any run."""

from manyhands.data.cache.fill import FillSummary, Progress, fill
from manyhands.data.cache.frame_cache import CacheWish, cameras_of, plan_frame_caches
from manyhands.data.reading import Reading
from manyhands.data.selection import Source
from manyhands.errors import UserError


def build_cache(
    source: Source, reading: Reading, wish: CacheWish, num_workers: int, on_progress: Progress
) -> tuple[FillSummary, str]:
    """Cache all frames that fit; return a summary and the reason of the plan."""
    planned = plan_frame_caches([(source, reading)], wish)
    (cache,) = planned.caches
    if cache is None:
        raise UserError(f"nothing to build. Frame cache: {planned.reason}")
    for key, pictures in cameras_of(source, reading).items():
        cache.column(key, pictures, drops_single_axis=False)
    return fill(planned, num_workers, on_progress), planned.reason
