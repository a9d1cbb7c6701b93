"""Kubernetes job settings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.launch.jobs import JobConfig, script_faults, text_faults
from manyhands.config.schema.rules import at_least

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
MAX_NAME = 52  # A host name has 63 characters: this name, a dash and the number of a pod.
RESOURCE_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
LABEL = re.compile(r"([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
QUANTITY = re.compile(r"\d+([KMGT]i|[kMGT])?")
IMAGE = re.compile(r"[\w][\w./:@-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class KubernetesConfig(JobConfig):
    """A Kubernetes job: a pod per node."""

    image: str | None = None
    """Container image with manyhands, as registry/team/manyhands:1."""
    namespace: str | None = None
    """Namespace; null: that of the current context."""
    cpus: int | None = None
    """CPU cores per node; null: the cluster's default, as for mem."""
    mem: str | None = None
    """Memory per node, as 64Gi."""
    shared_memory: str | None = None
    """Size of /dev/shm, which loader processes use, as 16Gi; null: up to the memory."""
    volumes: dict[str, str] = field(default_factory=dict)
    """Persistent volume claims and their mount paths, as {robot-data: /data}."""
    secrets: list[str] = field(default_factory=list)
    """Secrets whose keys become environment variables, as [hf-token]."""
    node_selector: dict[str, str] = field(default_factory=dict)
    """Labels of the nodes to run on, as {gpu: h100}."""
    working_dir: str | None = None
    """Folder in the container that relative paths start from; null: the image's."""
    grace_s: int = 120
    """Seconds that a run has to save after it was asked to leave."""
    max_restarts: int = 3
    """How often each node may fail; evictions and saved stops do not count."""
    script: Path = Path("train.k8s.yaml")
    """File to write."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return [
            *self.count_faults(),
            *at_least(self, "", 1, "cpus", "grace_s"),
            *at_least(self, "", 0, "max_restarts"),
            *self.variable_faults(),
            *self._name_faults(),
            *self._mount_faults(),
            *(fault for flag, text in self._texts() for fault in text_faults(flag, text)),
            *script_faults(self.script),
        ]

    def _name_faults(self) -> Iterator[str]:
        if self.image is None:
            yield "pods run a container image. Set --image=NAME, an image with manyhands"
        elif not IMAGE.fullmatch(self.image):
            yield f"--image={self.image} is not an image name"
        if self.job_name is not None and not is_name(self.job_name):
            yield f"--job_name={self.job_name} {NAME_RULE}"
        if self.namespace is not None and not is_name(self.namespace):
            yield f"--namespace={self.namespace} {NAME_RULE}"
        for secret in self.secrets:
            if not RESOURCE_NAME.fullmatch(secret):
                yield f"--secrets: {secret} is not the name of a secret"
        for label, value in self.node_selector.items():
            if not LABEL.fullmatch(label) or not LABEL_VALUE.fullmatch(value):
                yield f"--node_selector: {label}={value} is not a label"

    def _mount_faults(self) -> Iterator[str]:
        for name in ("mem", "shared_memory"):
            value = getattr(self, name)
            if value is not None and not QUANTITY.fullmatch(value):
                yield f"--{name}={value} is not a memory size. Write it as 64Gi"
        for claim, path in self.volumes.items():
            if not RESOURCE_NAME.fullmatch(claim):
                yield f"--volumes: {claim} is not the name of a volume claim"
            if not path.startswith("/") or ":" in path:
                yield f"--volumes: {path!r} is not an absolute path without a colon"

    def _texts(self) -> Iterator[tuple[str, str]]:
        yield from ((f"--env.{name}", value) for name, value in self.env.items())
        yield from (("--volumes", path) for path in self.volumes.values())
        yield "--working_dir", self.working_dir or ""


NAME_RULE = (
    f"must have at most {MAX_NAME} lowercase letters, digits and dashes, and start with a letter"
)


def is_name(text: str) -> bool:
    """Whether a text can name a job, its service and its pods."""
    return len(text) <= MAX_NAME and NAME.fullmatch(text) is not None


def name_like(text: str) -> str:
    """A name for a job that resembles the name of a run."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")
    return name[:MAX_NAME].strip("-") or "train"
