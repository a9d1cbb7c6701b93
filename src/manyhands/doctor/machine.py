"""Checks of the machine before any training: GPUs, host, software."""

from pathlib import Path

from manyhands.doctor.check import Check
from manyhands.doctor.gpus import check_gpus
from manyhands.doctor.host import check_host
from manyhands.doctor.software import check_software


def check_machine(folder: Path) -> list[Check]:
    """All checks of this machine; those of its disk in a folder."""
    return [*check_gpus(), *check_host(folder), *check_software()]
