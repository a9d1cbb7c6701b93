"""Evaluations of a run in simulation: those during training, and those of `manyhands eval`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands.config.commands.eval import EVAL_INFO
from manyhands.config.runs.run_dir import CHECKPOINTS
from manyhands.errors import UserError
from manyhands.evaluation.files import VIDEOS
from manyhands.evaluation.films import video_path
from manyhands.evaluation.results_file import read_results
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import Score, score
from manyhands.report.axes import short
from manyhands.report.facts import Tile
from manyhands.report.text import clipped

MAX_DEPTH = 3
MAX_FOLDERS = 1000
MAX_RESULTS = 40
LARGEST_COUNT = 2**63


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one evaluation, and the folder with their videos."""

    label: str
    folder: Path
    episodes: Sequence[EpisodeResult]

    @property
    def score(self) -> Score:
        """What the episodes amount to."""
        return score(self.episodes)

    def video(self, episode: EpisodeResult) -> Path:
        """Where the video of an episode lies, if it was filmed."""
        return video_path(self.folder / VIDEOS, episode)


def find_evaluations(run_dir: Path, prefix: str = "") -> list[Evaluation]:
    """The readable evaluations below a run directory, the latest first."""
    found = []
    for file in files_named(run_dir, EVAL_INFO):
        try:
            results = read_results(file.parent).results
        except UserError:
            continue
        if not all(is_plausible(each) for each in results):
            continue
        label = f"{prefix}{_label(file.parent, run_dir)}"
        found.append((_age(file), Evaluation(label, file.parent, results)))
    ordered = sorted(found, key=lambda each: each[0], reverse=True)
    return [evaluation for _, evaluation in ordered][:MAX_RESULTS]


def is_plausible(episode: EpisodeResult) -> bool:
    """Whether the numbers of an episode can be those of one."""
    counts = (episode.index, episode.seed, episode.length)
    return all(0 <= each < LARGEST_COUNT for each in counts)


def files_named(run_dir: Path, name: str) -> list[Path]:
    """Files of a name in a run directory and a few levels below, without its checkpoints."""
    return [file for folder in _folders(run_dir, MAX_DEPTH) if (file := folder / name).is_file()]


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    if depth == 0:
        return
    try:
        inner = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return
    for path in inner[:MAX_FOLDERS]:
        if path.name != CHECKPOINTS:
            yield from _folders(path, depth - 1)


def _age(file: Path) -> tuple[bool, float]:
    """A key that sorts evaluations by step; others, made afterwards, by the time of their file."""
    name = file.parent.name
    return (False, float(name)) if is_step(name) else (True, file.stat().st_mtime)


def is_step(name: str) -> bool:
    """Whether a folder is named by a step."""
    return name.isascii() and name.isdecimal() and len(name) < 16


def _label(folder: Path, run_dir: Path) -> str:
    if is_step(folder.name):
        return f"step {int(folder.name):,}"
    return clipped(folder.name if folder != run_dir else "this folder", 80)


def success_tile(evaluation: Evaluation) -> Tile:
    """The success of an evaluation as one of a run's key numbers."""
    total = evaluation.score
    low, high = total.interval
    return Tile("success", f"{total.success:.0%}", f"{low:.0%} to {high:.0%}, {evaluation.label}")


def result_rows(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """The evaluations as rows of a table."""
    return [_row(each.label, each.score) for each in evaluations]


def _row(label: str, total: Score) -> dict[str, Any]:
    low, high = total.interval
    return {
        "label": label,
        "success": f"{total.success:.1%}",
        "interval": f"{low:.1%} to {high:.1%}",
        "width": f"{100 * total.success:.1f}",
        "low": f"{100 * low:.1f}",
        "beyond": f"{100 - 100 * high:.1f}",
        "num_episodes": f"{total.num_episodes:,}",
        "reward": short(total.mean_max_reward),
        "length": short(total.mean_length),
    }
