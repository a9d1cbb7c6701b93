"""Resident memory of processes."""

import psutil


def resident_bytes() -> int:
    """Memory of this process and its children; shared memory counts once per process."""
    process = psutil.Process()
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += int(each.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return total
