"""Record a dataset of the expert's episodes, with camera video."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import track

from manyhands.data.writing.writer import DatasetWriter
from manyhands.sim.expert import record_episodes
from manyhands.sim.task import FPS, features


def record_dataset(root: Path, seeds: Sequence[int], frame_size: int) -> None:
    """Record one episode per seed into a new dataset."""
    with DatasetWriter.create(
        root, FPS, features(frame_size), robot_type="simulated arm"
    ) as writer:
        episodes = record_episodes(seeds, frame_size)
        for episode in track(episodes, "recording", total=len(seeds), transient=True):
            for frame in episode:
                writer.add_frame(frame)
            writer.save_episode()
