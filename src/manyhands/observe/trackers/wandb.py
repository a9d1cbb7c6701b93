"""Weights & Biases, with LeRobot's settings of a run."""

import os
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wandb

from manyhands.config.runs.run_dir import PRETRAINED
from manyhands.config.schema.decoding import encode
from manyhands.config.train import TrainConfig
from manyhands.observe.trackers.keys import EVAL_STEPS, VIDEO, Values
from manyhands.observe.trackers.notes import Notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.observe.trackers.tracker import Sent
from manyhands.observe.trackers.wandb_file import (
    drop_incomplete_records,
    read_artifacts,
    read_history,
    run_files,
)

MAX_TAG = 64  # Characters of a tag, as wandb limits them.
MAX_NAME = 128  # Characters of the name of an artifact.
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")
WEIGHTS = ("adapter_model.safetensors", "adapter_config.json", "config.json")
"""The files of adapters; other policies are their weights alone."""


class WandbTracker:
    """One run of wandb, found again by its id."""

    def __init__(self, run: TrackedRun, run_id: str) -> None:
        self._config = run.config
        self._step = self._evaluated_at = 0  # Of this process; earlier steps are complete.
        self._late: deque[dict[str, Any]] = deque()
        drop_incomplete_records(run.run_dir / "wandb", run_id)
        self._run, warning = start(run, run_id)
        # wandb shows evaluations by the step whose weights they measured.
        self._run.define_metric(EVAL_STEPS, hidden=True)
        self._run.define_metric("eval/*", step_metric=EVAL_STEPS)
        self.sent = self._read_sent(run)
        self.facts: Notes = {"id": run_id, "folder": str(Path(self._run.dir).parent)}
        self.facts |= {} if self._run.offline else {"url": self._run.url}
        self.facts |= {} if warning is None else {"warning": warning}

    def _read_sent(self, run: TrackedRun) -> Sent:
        """What the server holds, or the files of a run that is offline."""
        files = run_files(run.run_dir / "wandb", self._run.id)
        server = None if self._run.offline else self._run.starting_step
        rows = [row for file in files for row in read_history(file)]
        sent = read_sent([row for row in rows if server is None or row["_step"] < server])
        sent.last_step = max(sent.last_step, (server or 0) - 1)
        if server is None:
            # A server ignores an artifact that it has; one of a killed run may not have arrived.
            artifacts = {name for file in files for name in read_artifacts(file)}
            sent.checkpoints = {name.rpartition("-")[2] for name in artifacts}
        return sent

    def log_step(self, step: int, values: Values) -> None:
        """Log the training metrics of a step; earlier ones are complete by then."""
        self._step = step
        self._run.log(values, step=step)
        self._log_late()

    def log_evaluation(self, step: int, values: Values, video: Path | None) -> None:
        """Log evaluation metrics with the current step or the next, since wandb cannot go back."""
        shown = {} if video is None else {VIDEO: wandb.Video(str(video), format="mp4")}
        self._late.append(values | shown)
        self._log_late()

    def _log_late(self) -> None:
        """Log one evaluation for each step: a second one would overwrite the first."""
        if self._late and self._evaluated_at != self._step:
            self._run.log(self._late.popleft(), step=self._step)
            self._evaluated_at = self._step

    def log_checkpoint(self, checkpoint: Path) -> None:
        """Upload the weights of a checkpoint as LeRobot does, unless they are sharded."""
        if self._config.wandb.disable_artifact:
            return
        folder = checkpoint / PRETRAINED
        names = [name for name in WEIGHTS if (folder / name).exists()]
        if WEIGHTS[0] not in names:
            names = ["model.safetensors"]
        if not (folder / names[0]).exists():
            return
        name = artifact_name(self._config, checkpoint.name)
        artifact = wandb.Artifact(name, type="model")
        for each in names:
            artifact.add_file(str(folder / each))
        self._run.log_artifact(artifact)

    def flush(self) -> None:
        """wandb writes by itself."""

    def finish(self, exit_code: int) -> None:
        """Complete the run, and wait until all of it is uploaded."""
        last = max(self._step, self.sent.last_step)
        # Beyond the last step only if no other follows: wandb takes each step once.
        for number in range(len(self._late) if last >= self._config.num_steps else 0):
            self._run.log(self._late.popleft(), step=last + 1 + number)
        self._run.finish(exit_code=exit_code)


def start(run: TrackedRun, run_id: str) -> tuple[Any, str | None]:
    """Start or continue a run; offline with a warning if the server cannot be used."""
    settings = run.config.wandb
    options: dict[str, Any] = {
        "id": run_id,
        "mode": settings.mode or "online",
        "project": settings.project,
        "entity": settings.entity,
        "name": run.job_name,
        "notes": settings.notes,
        "tags": tags_of(run.config) if settings.add_tags else None,
        "dir": str(run.run_dir),
        "config": encode(run.config),
        "save_code": False,
        "job_type": "train_eval",
        "resume": "allow",
        # Charts of the system are those of training, not of this process.
        "settings": wandb.Settings(silent=True, console="off", x_stats_pid=os.getppid()),
    }
    try:
        return wandb.init(**options), None
    except (wandb.errors.UsageError, wandb.errors.CommError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
    # A first attempt that timed out still holds the id in wandb's service process.
    wandb.teardown()
    warning = (
        f"wandb is offline: {reason}. Metrics are recorded; upload them later: "
        f"wandb sync {run.run_dir}/wandb/offline-run-*"
    )
    return wandb.init(**options | {"mode": "offline"}), warning


def read_sent(rows: Sequence[dict[str, Any]]) -> Sent:
    """What the rows of a history hold."""
    sent = Sent()
    for row in rows:
        if "train/steps" in row:
            sent.last_step = max(sent.last_step, row["train/steps"])
        if EVAL_STEPS in row:
            names = (name for name in row if name.startswith("eval/"))
            sent.evaluated |= {(row[EVAL_STEPS], name) for name in names}
    return sent


def group_of(config: TrainConfig) -> list[str]:
    """Policy, seed, dataset and environment of a run, as LeRobot writes them."""
    assert config.policy is not None
    folder = config.dataset.root.name if config.dataset.root is not None else None
    dataset = config.dataset.repo_id or folder or "+".join(config.dataset.mix or ())
    env = [] if config.env is None else [f"env:{config.env.type}"]
    return [f"policy:{config.policy.type}", f"seed:{config.seed}", f"dataset:{dataset}", *env]


def tags_of(config: TrainConfig) -> list[str]:
    """The tags of a run."""
    return [tag[:MAX_TAG] for tag in group_of(config)]


def artifact_name(config: TrainConfig, checkpoint: str) -> str:
    """The name of a checkpoint's artifact, as LeRobot writes it and wandb accepts it."""
    group = NOT_IN_NAMES.sub("_", "-".join(group_of(config)))
    return f"{group[: MAX_NAME - len(checkpoint) - 1]}-{checkpoint}"
