"""Whether steps wait for data, and what makes loading faster on this machine."""

import math
from collections.abc import Iterator

from manyhands.observe.diagnosis.advice import (
    MIN_SHARE,
    NOTE,
    Diagnosis,
    milliseconds,
    severity_of,
    speed_up,
)
from manyhands.observe.diagnosis.history import History, Row

MORE_WORKERS = 2
"""Factor of loader processes to propose: memory and disk are shared, more could slow all down."""


def slow_data(history: History) -> Iterator[Diagnosis]:
    """Steps wait for the loader."""
    share = data_share(history)
    if share < MIN_SHARE:
        return
    step_s = history.typical("step_s") or 0.0
    full_at = cache_full_at(history)
    until = "" if full_at is None else f", until all frames are cached at step {full_at:,}"
    yield Diagnosis(
        kind="decode_bound",
        severity=severity_of(share) if full_at is None else NOTE,
        text=f"Data loading limits the speed: a step takes {milliseconds(step_s)} and waits "
        f"{milliseconds(share * step_s)} of them for its batch{until}",
        remedy=loading_remedy(history),
        gain=f"{speed_up(share, most_speed_up(history, share))}: {share:.0%} of each step waits "
        f"for data{until}",
    )


def data_share(history: History) -> float:
    """The fraction of the time in which nothing happens because data is missing."""
    share = history.usual_share("data_s")
    utilization = history.typical("gpu_utilization")
    # The host runs ahead of a GPU, and may wait for data while the GPU computes earlier steps.
    return share if utilization is None else min(share, 1 - utilization)


def loading_remedy(history: History) -> str:
    """What makes loading faster: a cache, more processes, else smaller images."""
    num_workers = more_workers(history)
    flags = [] if num_workers is None else [f"--num_workers={num_workers}"]
    flags = [*cache_flags(history), *flags]
    if flags:
        return f"Set {' and '.join(flags)}"
    smaller = "set a smaller --dataset.image_size, or " if frame_cache(history) else ""
    return f"{smaller}use more cores per process".capitalize()


def loader_processes(history: History) -> int | None:
    """Loader processes of a rank; None if a run of an earlier version left it to the default."""
    number: int | None = history.fact("loading.num_workers", history.setting("num_workers"))
    return number


def more_workers(history: History) -> int | None:
    """A larger number of loader processes; None if each core has one, but that of the step."""
    current = loader_processes(history)
    cores = history.fact("hardware.cores", 0) // max(1, ranks_per_host(history))
    if current is None or cores - 1 <= current:
        return None
    return int(min(MORE_WORKERS * max(1, current), cores - 1))


def most_speed_up(history: History, share: float) -> float:
    """How much faster the proposed flags can make loading."""
    current, proposed = loader_processes(history), more_workers(history)
    if cache_flags(history) or current is None or proposed is None:
        return math.inf
    # Where each step waits, the loader sets the pace; without processes it adds to the step.
    return proposed / current if current else proposed / share


def cache_flags(history: History) -> list[str]:
    """Flags that cache more frames; none if all frames are cached or no images are read."""
    if frame_cache(history).get("capacity", 1.0) >= 1:
        return []
    if history.setting("cache.mode") in ("off", "ram"):
        return ["--cache.mode=auto"]
    if history.setting("cache.max_disk") is not None:
        return ["a larger --cache.max_disk"]
    return ["--cache.folder to a disk with more free space"]


def frame_cache(history: History) -> Row:
    """The frame cache of a run; of earlier versions only what was set, without images empty."""
    loading = history.fact("loading")
    if loading is not None:
        return loading.get("frame_cache") or {}
    return {"capacity": 0.0} if history.setting("cache.mode") == "off" else {}


def cache_full_at(history: History) -> int | None:
    """The step from which all frames come from the cache; None if not in this run, or already."""
    cache, epoch = frame_cache(history), history.fact("batch.steps_per_epoch", 0)
    is_filling = cache.get("capacity", 0.0) >= 1 and cache.get("filled", 1.0) < 1
    # Machines cache for themselves what they read; a mixture may repeat some datasets first.
    if not is_filling or not epoch or num_hosts(history) > 1 or history.setting("dataset.mix"):
        return None
    # A resumed run may have begun an epoch on another machine.
    full_at = epoch * (1 + math.ceil(history.fact("resumed_at", 0) / epoch))
    is_ahead = history.recent[-1]["step"] < full_at < history.fact("budget.steps", 0)
    return math.ceil(full_at) if is_ahead else None


def ranks_per_host(history: History) -> int:
    """Ranks on the machine that has the most."""
    hosts = [rank.get("host") for rank in history.fact("ranks", [])]
    return max((hosts.count(host) for host in hosts), default=1)


def num_hosts(history: History) -> int:
    """Machines of a run."""
    return len({rank.get("host") for rank in history.fact("ranks", [])})
