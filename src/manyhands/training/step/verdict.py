"""Verdicts of trials of compiled steps, stored with the compiled kernels for later runs.

A verdict belongs to one policy, batch shape, precision, GPU model and software version.
It also counts switches to the compiled step that did not finish: after two of them, a run does
not try again.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from manyhands.atomic import atomic_file

FOLDER = "manyhands_trials"
MAX_UNFINISHED = 2
"""Switches that may stay unfinished: a user may kill a run in such a moment once."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a trial."""

    is_faster: bool
    reason: str
    """Why the compiled step is not used, or by how much it is faster."""
    is_final: bool = True
    """Whether later runs should rely on it even if the compiled step was slower."""
    graph_ms: float = 0.0
    compiled_ms: float = 0.0
    trial_s: float = 0.0
    num_bytes: int = 0
    """GPU memory that the compiled step needs on top of weights and optimizer."""
    num_unfinished: int = 0
    """Switches that began and did not finish."""

    @property
    def is_usable(self) -> bool:
        """Whether a run may switch to the compiled step."""
        return self.is_faster and self.num_unfinished < MAX_UNFINISHED


class Verdicts:
    """The verdicts of this machine, as files in a folder."""

    def __init__(self, kernels_dir: Path) -> None:
        self._folder = kernels_dir / FOLDER

    def read(self, key: str) -> Verdict | None:
        """Read the verdict of a key; None without a trial or with an unreadable file."""
        try:
            values = json.loads(self.path(key).read_text(encoding="utf-8"))
            return Verdict(**{field.name: values[field.name] for field in fields(Verdict)})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, key: str, verdict: Verdict) -> None:
        """Store a verdict; if the disk is full, the next run repeats the trial."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(self.path(key)) as file:
                file.write_text(json.dumps(asdict(verdict), indent=2), encoding="utf-8")
        except OSError:
            return

    def remove(self, key: str) -> None:
        """Remove a verdict, so that the next run makes a trial."""
        self.path(key).unlink(missing_ok=True)

    def begin_switch(self, key: str, verdict: Verdict) -> None:
        """Record that a run is about to switch."""
        self.write(key, replace(verdict, num_unfinished=verdict.num_unfinished + 1))

    def end_switch(self, key: str, verdict: Verdict) -> None:
        """Record that a switch finished, whatever its result."""
        self.write(key, replace(verdict, num_unfinished=0))

    def path(self, key: str) -> Path:
        """The file of a verdict."""
        return self._folder / f"{key}.json"

    def log_path(self, key: str) -> Path:
        """The file that a trial prints to."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{key}.log"


def trial_key(facts: Mapping[str, Any]) -> str:
    """A hash of facts about a step and of the software that compiles it."""
    known = dict(facts) | {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "sources": source_digest(),
    }
    text = json.dumps(known, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:32]


@cache
def source_digest() -> str:
    """A checksum of this package: a changed network or kernel needs a new trial."""
    root = Path(__file__).resolve().parents[2]
    digest = sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
