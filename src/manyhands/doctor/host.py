"""Checks of the machine besides its GPUs: memory, limits, disk, clock."""

import ctypes
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from manyhands import units
from manyhands.cores import num_cores
from manyhands.doctor.check import Check
from manyhands.observe.host_memory import HostMemory, host_memory

SHM = Path("/dev/shm")
MIN_SHM_BYTES = 1 << 30
"""Loader processes pass batches through it; containers get 64 MiB unless told otherwise."""
MIN_OPEN_FILES = 4096
"""A loader process opens a file per camera and episode file, and a socket per rank."""
MIN_FREE_BYTES = 10 << 30
"""A few checkpoints of a large policy."""
PROBE_BYTES = 64 << 20
MIN_BYTES_PER_S = 50e6
"""Below, saving a policy of 450 million weights takes more than half a minute."""
CLOCK_PROBE_S = 0.2
MAX_CLOCK_DRIFT = 0.02
"""Difference of two clocks over the probe, as a fraction; a wall clock is slewed by 0.05 %."""
UNSYNCHRONIZED = 5
"""What adjtimex returns for a clock that no time service sets."""


def check_host(folder: Path) -> Iterator[Check]:
    """Check memory, limits, the disk of a folder, and the clock."""
    yield Check("host", "ok", f"{num_cores()} cores, {memory_line(host_memory())}")
    yield from check_shared_memory(SHM)
    yield check_open_files()
    yield check_disk(folder)
    yield check_clock()
    yield from check_time_sync()


def memory_line(memory: HostMemory) -> str:
    """Memory in words, with the limit of a container or job."""
    is_limited = memory.total_bytes < memory.machine_bytes
    limit = f" (limit of this job; the machine has {units.num_bytes(memory.machine_bytes)})"
    return (
        f"{units.num_bytes(memory.total_bytes)} memory{limit if is_limited else ''}, "
        f"{units.num_bytes(memory.available_bytes)} available"
    )


def check_shared_memory(folder: Path) -> Iterator[Check]:
    """Whether loader processes have memory for their batches."""
    if not folder.is_dir():
        return
    total = shutil.disk_usage(folder).total
    found = f"{units.num_bytes(total)} at {folder}"
    if total >= MIN_SHM_BYTES:
        yield Check("shared memory", "ok", found)
        return
    remedy = "Start the container with --shm-size=8g, or mount a larger tmpfs"
    yield Check("shared memory", "warn", found, remedy)


def check_open_files() -> Check:
    """Whether a process may open enough files."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit in (resource.RLIM_INFINITY, -1) or limit >= MIN_OPEN_FILES:
        return Check("open files", "ok", f"limit {limit}")
    wanted = MIN_OPEN_FILES if hard < 0 else min(hard, 16 * MIN_OPEN_FILES)
    return Check("open files", "warn", f"limit {limit}", f"Run ulimit -n {wanted} before training")


def check_disk(folder: Path) -> Check:
    """Free space and speed of the disk of a folder."""
    try:
        write, read = disk_speed(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        remedy = "Free disk space, or run in another folder"
        return Check("disk", "fail", f"cannot write to {folder}: {error.strerror}", remedy)
    found = f"{units.num_bytes(free)} free at {folder}; writes {write / 1e6:,.0f} MB/s, "
    found += f"reads {read / 1e6:,.0f} MB/s"
    if free < MIN_FREE_BYTES:
        return Check("disk", "warn", found, "Free disk space, or set --keep_last for checkpoints")
    if min(write, read) < MIN_BYTES_PER_S:
        return Check("disk", "warn", found, "Use a local disk for --output_dir and --cache.folder")
    return Check("disk", "ok", found)


def disk_speed(folder: Path) -> tuple[float, float]:
    """Bytes per second of writing a file to the disk, and of reading it."""
    block = os.urandom(PROBE_BYTES // 16)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".manyhands-doctor-") as file:

        def write() -> None:
            for _ in range(16):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

        def read() -> None:
            file.seek(0)
            while file.read(len(block)):
                pass

        written_s = seconds(write)
        if sys.platform == "linux":
            # Else the file would be read from memory.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return PROBE_BYTES / written_s, PROBE_BYTES / seconds(read)


def seconds(work: Callable[[], None]) -> float:
    """How long work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def check_clock() -> Check:
    """Whether the wall clock runs as fast as the monotonic one."""
    wall, steady = datetime.now(UTC), time.monotonic()
    time.sleep(CLOCK_PROBE_S)
    wall_s = (datetime.now(UTC) - wall).total_seconds()
    drift = abs(wall_s / (time.monotonic() - steady) - 1)
    if drift <= MAX_CLOCK_DRIFT:
        return Check("clock", "ok", "wall clock and monotonic clock agree")
    found = f"wall clock and monotonic clock differ by {drift:.0%}"
    return Check("clock", "warn", found, "Check the time service of this machine")


def check_time_sync() -> Iterator[Check]:
    """Whether a time service sets the clock, where the kernel knows."""
    if sys.platform != "linux":
        return
    # The kernel fills the structure, which has 208 bytes on 64-bit machines; all zeros only read.
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    if state < 0:
        return
    if state != UNSYNCHRONIZED:
        yield Check("time service", "ok", "the clock is synchronized")
        return
    remedy = "Start chrony or systemd-timesyncd, if logs of several machines are compared"
    yield Check("time service", "warn", "the kernel's clock is not synchronized", remedy)
