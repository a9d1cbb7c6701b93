"""What trackers need to know of a run; torch-free, sent to their processes."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.train import TrainConfig

FOLDER = "trackers"  # Run ids and logs of trackers, in the run directory.


@dataclass(frozen=True)
class TrackedRun:
    """A run and its position at the start of this process."""

    run_dir: Path
    eval_dir: Path
    """Evaluations by step, with their videos."""
    job_name: str
    config: TrainConfig
    start_step: int
    start_samples: int
    samples_per_step: int
    num_frames: int
    num_episodes: int

    def samples_at(self, step: int) -> int:
        """Samples consumed by a step."""
        return self.start_samples + (step - self.start_step) * self.samples_per_step

    def video_of(self, step: int) -> Path | None:
        """The first video of the evaluation after a step."""
        return next(iter(sorted((self.eval_dir / str(step)).rglob("*.mp4"))), None)
