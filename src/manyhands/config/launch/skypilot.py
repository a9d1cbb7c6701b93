"""SkyPilot task settings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.launch.jobs import JobConfig, script_faults, text_faults
from manyhands.config.schema.rules import at_least

NAME = re.compile(r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*")
ACCELERATOR = re.compile(r"[A-Za-z][\w-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SkyPilotConfig(JobConfig):
    """A SkyPilot task."""

    accelerator: str | None = None
    """Kind of GPU, as H100; needed unless --gpus_per_node=0."""
    infra: str | None = None
    """Cloud, region or Kubernetes context, as aws/us-east-1; null: the cheapest."""
    use_spot: bool = False
    """Spot instances; sky jobs launch continues the run on others when they are taken away."""
    image: str | None = None
    """Image, as docker:registry/team/manyhands:1; null: SkyPilot's."""
    cpus: int | None = None
    """CPU cores per node, at least; null: any, as for mem_gb."""
    mem_gb: int | None = None
    """Memory per node in GB, at least."""
    disk_gb: int | None = None
    """Disk per node in GB; null: SkyPilot's default."""
    mounts: dict[str, str] = field(default_factory=dict)
    """Paths on the nodes and buckets or local folders, as {/data: s3://robot-data}."""
    workdir: Path | None = None
    """Local folder to copy to the nodes and run in; null: none."""
    setup: list[str] = field(default_factory=list)
    """Shell lines that prepare a node, as [pip install manyhands]."""
    max_restarts: int = 3
    """How often a managed job restarts after a failure."""
    script: Path = Path("train.sky.yaml")
    """File to write."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return [
            *self.count_faults(),
            *at_least(self, "", 1, "cpus", "mem_gb", "disk_gb"),
            *at_least(self, "", 0, "max_restarts"),
            *self.variable_faults(),
            *self._value_faults(),
            *(fault for flag, text in self._texts() for fault in text_faults(flag, text)),
            *script_faults(self.script),
        ]

    def _value_faults(self) -> Iterator[str]:
        if self.gpus_per_node and self.accelerator is None:
            yield "SkyPilot needs the kind of GPU. Set --accelerator=H100, or --gpus_per_node=0"
        if self.accelerator is not None and not ACCELERATOR.fullmatch(self.accelerator):
            yield f"--accelerator={self.accelerator} is not a kind of GPU. Write it as H100"
        if self.job_name is not None and not NAME.fullmatch(self.job_name):
            yield (
                f"--job_name={self.job_name} must have letters and digits, with single dots, "
                "dashes or underscores between them"
            )
        for name, value in self.env.items():
            if not value:
                yield f"--env.{name} is empty: SkyPilot would ask for its value at every launch"
        for path, source in self.mounts.items():
            if not path.startswith(("/", "~/")):
                yield f"--mounts: {path!r} is not an absolute path on the nodes"
            if not source:
                yield f"--mounts: {path} has no source"

    def _texts(self) -> Iterator[tuple[str, str]]:
        yield from ((f"--env.{name}", value) for name, value in self.env.items())
        yield from (("--mounts", text) for pair in self.mounts.items() for text in pair)
        yield from (("--setup", line) for line in self.setup)
        for name in ("infra", "image", "workdir"):
            yield f"--{name}", str(getattr(self, name) or "")


def name_like(text: str) -> str:
    """A name for a task that resembles the name of a run."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", text).strip("-") or "train"
