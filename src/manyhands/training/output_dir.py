"""Whether a run can use its output directory: writable, free, and not of another run."""

import os
from pathlib import Path

from manyhands.atomic import scratch_path
from manyhands.config.paths.output import folder_fault
from manyhands.config.runs.run_dir import LOCK, list_checkpoints
from manyhands.config.runs.run_state import refuse_folder_in_use
from manyhands.config.train import AUTO, TrainConfig
from manyhands.errors import UserError


def reject_run_dir(run_dir: Path, config: TrainConfig) -> None:
    """Raise if a run cannot use a directory, which need not exist yet."""
    fault = run_dir_fault(run_dir, config)
    if fault is not None:
        raise UserError(fault)


def run_dir_fault(run_dir: Path, config: TrainConfig) -> str | None:
    """Why a run cannot use a directory, which need not exist yet; None if it can."""
    fault = folder_fault("--output_dir", run_dir)
    if fault is not None:
        return fault
    refuse_folder_in_use(run_dir)
    if not _has_files(run_dir) or _belongs_to_run(run_dir, config):
        return None
    if list_checkpoints(run_dir):
        return (
            f"--output_dir={run_dir} already contains a run. Resume it: --resume={run_dir}, or set "
            "another --output_dir"
        )
    what = "a run without a checkpoint" if (run_dir / "run.json").is_file() else "other files"
    return f"--output_dir={run_dir} already contains {what}. Set another --output_dir"


def _has_files(run_dir: Path) -> bool:
    """Whether a directory contains files that a run killed at its start does not leave."""
    at_start = (run_dir / LOCK, scratch_path(run_dir / "run.json"))
    found = (Path(folder, name) for folder, _, names in os.walk(run_dir) for name in names)
    return any(file not in at_start for file in found)


def _belongs_to_run(run_dir: Path, config: TrainConfig) -> bool:
    """Whether a directory belongs to the run that resumes or restarts in it."""
    if config.resumes:
        return Path(str(config.resume)).resolve().parent.parent == run_dir.resolve()
    return config.resume == AUTO and (run_dir / "run.json").is_file()
