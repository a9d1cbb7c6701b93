"""Job settings that every cluster shares; the training flags are separate."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.paths.output import file_fault
from manyhands.config.schema.rules import at_least

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """Nodes, processes and environment of a job."""

    nodes: int = 1
    """Number of nodes."""
    gpus_per_node: int = 1
    """GPUs per node; 0: train on CPUs, see --processes_per_node."""
    processes_per_node: int | None = None
    """Processes per node; null: one per GPU."""
    job_name: str | None = None
    """Name of the job; null: that of the run."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables of every process, as {NCCL_SOCKET_IFNAME: ib0}."""
    overwrite: bool = False
    """Overwrite an existing, different file."""

    @property
    def num_processes(self) -> int:
        """Processes per node."""
        return self.processes_per_node or self.gpus_per_node

    def count_faults(self) -> Iterator[str]:
        """Yield impossible numbers of nodes, GPUs and processes."""
        yield from at_least(self, "", 1, "nodes", "processes_per_node")
        yield from at_least(self, "", 0, "gpus_per_node")
        if self.gpus_per_node == 0 and self.processes_per_node is None:
            yield "--gpus_per_node=0 trains on CPUs. Set --processes_per_node=N"
        if 0 < self.gpus_per_node < self.num_processes:
            yield (
                f"--processes_per_node={self.processes_per_node} exceeds "
                f"--gpus_per_node={self.gpus_per_node}. Use one process per GPU"
            )

    def variable_faults(self) -> Iterator[str]:
        """Yield names that no environment variable can have."""
        for name in self.env:
            if not VARIABLE.fullmatch(name):
                yield f"--env: {name} is not a variable name"


def script_faults(script: Path) -> list[str]:
    """Return why the file of a job cannot be written."""
    fault = file_fault("--script", script)
    return [] if fault is None else [fault]


def text_faults(flag: str, text: str) -> Iterator[str]:
    """Yield why a text cannot be written into a job's file, or given to a program."""
    if "\0" in text:
        yield f"{flag}={text!r} contains a null character, which no program can be given"
    if any("\ud800" <= character <= "\udfff" for character in text):
        yield f"{flag}={text!r} is not valid Unicode"
