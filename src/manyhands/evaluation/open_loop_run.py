"""An open-loop evaluation from its flags to its files, on all ranks."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.config.train import TrainConfig
from manyhands.data.dataset import Dataset
from manyhands.errors import UserError
from manyhands.evaluation.action_errors import ActionErrors, errors_document, joint_names
from manyhands.evaluation.evaluated_policy import load_evaluated, with_renames
from manyhands.evaluation.open_loop import OpenLoop, open_loop_errors, sample_rows
from manyhands.evaluation.recorded_data import open_recorded, read_run
from manyhands.evaluation.results_folder import attempt, named, results_folder, write_document
from manyhands.evaluation.run import evaluated_folder, placed
from manyhands.lerobot_format import names
from manyhands.observe.console import progress_bar

ERRORS_FILE = "open_loop.json"
TRACES_FILE = "open_loop_traces.json"
NUM_TRACED = 2


@dataclass(frozen=True)
class Trace:
    """One episode as recorded, and the chunks predicted along it."""

    episode: int
    recorded: np.ndarray
    """Actions (frames, joints)."""
    chunks: dict[int, np.ndarray]
    """Actions (steps, joints) that are executed before the next chunk, by their first frame."""


@dataclass(frozen=True)
class OpenLoopEvaluation:
    """What an open-loop evaluation found, and where it lies."""

    policy_folder: Path
    dataset: Dataset
    choice: str
    """Which episodes they are, in words."""
    stride: int
    seed: int
    errors: ActionErrors
    traces: list[Trace]
    output_dir: Path
    job_name: str | None = None
    fault: UserError | None = None
    """Why its files could not be written."""

    @property
    def joints(self) -> list[str]:
        """Names of the joints."""
        return joint_names(self.dataset.features[names.ACTION])

    def document(self) -> dict[str, Any]:
        """The errors for programs."""
        return {
            "policy": str(self.policy_folder),
            "dataset": str(self.dataset.root),
            "episodes": self.dataset.episodes.tolist(),
            "episodes_are": self.choice,
            "stride": self.stride,
            "seed": self.seed,
            "fps": self.dataset.fps,
            **named(self.job_name),
            **errors_document(self.errors, self.joints, self.dataset.fps),
        }

    def traces_document(self) -> dict[str, Any]:
        """The traced episodes for programs: recorded actions, and chunks by their first frame."""
        return {
            "fps": self.dataset.fps,
            "joints": self.joints,
            "episodes": [
                {
                    "episode": trace.episode,
                    "recorded": trace.recorded.tolist(),
                    "chunks": [
                        {"first": first, "actions": chunk.tolist()}
                        for first, chunk in trace.chunks.items()
                    ],
                }
                for trace in self.traces
            ],
        }


def run_open_loop(config: EvalCommandConfig) -> OpenLoopEvaluation | None:
    """Evaluate as one of the ranks; the main one returns the errors over all."""
    folder = evaluated_folder(config.policy)
    policy = load_evaluated(folder, config)
    run = read_run(folder) or TrainConfig()
    run = replace(run, rename_map=with_renames(run.rename_map, config.rename_map))
    recorded = open_recorded(config.dataset, policy, run)
    dataset = recorded.dataset
    stride = config.open_loop.stride or policy.config.num_executed_actions
    rows = sample_rows(dataset, stride, config.open_loop.max_samples)
    with placed([policy], config.policy.device) as world:
        open_loop = OpenLoop(policy, dataset, config.seed)
        output_dir = world.on_main(lambda: results_folder(config, policy))
        with progress_bar("batches") as on_progress:
            errors = open_loop_errors(open_loop, rows, world, on_progress)
        if not world.is_main:
            return None
        found = OpenLoopEvaluation(
            policy_folder=folder,
            dataset=dataset,
            choice=recorded.choice,
            stride=stride,
            seed=config.seed,
            errors=errors,
            traces=trace_episodes(open_loop, dataset, rows, policy.config.num_executed_actions),
            output_dir=output_dir,
            job_name=config.job_name,
        )
    _, fault = attempt(lambda: write_open_loop(found))
    return replace(found, fault=fault)


def write_open_loop(evaluation: OpenLoopEvaluation) -> None:
    """Write the errors and the traced episodes."""
    write_document(evaluation.output_dir / ERRORS_FILE, evaluation.document())
    write_document(evaluation.output_dir / TRACES_FILE, evaluation.traces_document())


def trace_episodes(
    open_loop: OpenLoop, dataset: Dataset, rows: np.ndarray, num_executed: int
) -> list[Trace]:
    """The first episodes as recorded and as predicted at the given rows."""
    traces = []
    for place, (first, end) in enumerate(dataset.episode_bounds[:NUM_TRACED].tolist()):
        own = rows[(rows >= first) & (rows < end)]
        if not own.size:
            continue
        chunks = open_loop.chunks(own)[:, :num_executed]
        frames = np.arange(*dataset.frame_bounds[place])
        traces.append(
            Trace(
                int(dataset.episodes[place]),
                dataset.column_values(names.ACTION, frames),
                {
                    row - first: chunk[: end - row]
                    for row, chunk in zip(own.tolist(), chunks, strict=True)
                },
            )
        )
    return traces
