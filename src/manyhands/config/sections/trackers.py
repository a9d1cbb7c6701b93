"""Trackers that show the metrics of a run, beside `metrics.jsonl`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MODES = ("online", "offline", "disabled")


@dataclass(frozen=True, kw_only=True)
class WandbConfig:
    """Weights & Biases (wandb)."""

    enable: bool = False
    """Log metrics and checkpoints to Weights & Biases."""
    disable_artifact: bool = False
    """Do not upload checkpoints as artifacts."""
    project: str = "lerobot"
    """Project of the run."""
    entity: str | None = None
    """User or team that owns the project; null: wandb's default."""
    notes: str | None = None
    """Notes on the run."""
    run_id: str | None = None
    """Id of the run, which continues if it exists; null: a new one, or that of the resumed run."""
    mode: str | None = None
    """online, offline (files in the run directory, for `wandb sync`) or disabled; null: online."""
    add_tags: bool = True
    """Tag the run with policy, seed, dataset and environment."""

    def faults(self) -> Iterator[str]:
        """Yield invalid values."""
        if self.mode not in (None, *MODES):
            yield f"--wandb.mode={self.mode} is not one of {', '.join(MODES)}"
        if not self.project:
            yield "--wandb.project is empty. Set the name of a project"


@dataclass(frozen=True, kw_only=True)
class TensorboardConfig:
    """TensorBoard."""

    enable: bool = False
    """Write event files for TensorBoard."""
    folder: Path | None = None
    """Folder of the event files, for this run alone; null: tensorboard in the run directory."""


@dataclass(frozen=True, kw_only=True)
class TrackioConfig:
    """Trackio."""

    enable: bool = False
    """Log metrics to Trackio."""
    project: str = "manyhands"
    """Project of the run."""
    space_id: str | None = None
    """Space on the Hugging Face Hub that shows the project; null: on this machine only."""

    def faults(self) -> Iterator[str]:
        """Yield invalid values."""
        if not self.project:
            yield "--trackio.project is empty. Set the name of a project"


class Tracked(Protocol):
    """A run with trackers."""

    @property
    def wandb(self) -> WandbConfig: ...

    @property
    def tensorboard(self) -> TensorboardConfig: ...

    @property
    def trackio(self) -> TrackioConfig: ...


def enabled_trackers(run: Tracked) -> list[str]:
    """Names of the trackers that a run uses."""
    enabled = {
        "wandb": run.wandb.enable and run.wandb.mode != "disabled",
        "tensorboard": run.tensorboard.enable,
        "trackio": run.trackio.enable,
    }
    return [name for name, is_enabled in enabled.items() if is_enabled]
