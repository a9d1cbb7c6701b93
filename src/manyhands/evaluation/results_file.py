"""Results of a finished evaluation, read from its `eval_info.json` or from its `--json` file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands.config.commands.eval import EVAL_INFO
from manyhands.errors import UserError
from manyhands.evaluation.rollout import EpisodeResult

FAULTS = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What a file of another kind may raise."""
ONLY_IN_VIDEOS = "visualization"
"""How flags begin that change no episode."""


@dataclass(frozen=True)
class SavedResults:
    """Episodes that were run before."""

    file: Path
    env: dict[str, Any]
    """What is known of their environment: its type and flags."""
    results: list[EpisodeResult]


def read_results(path: Path) -> SavedResults:
    """Read a file of results, or the one in a folder."""
    file = path / EVAL_INFO if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rows = document["episodes"] if "episodes" in document else document["per_episode"]
        results = [_episode(row) for row in rows]
        env = document.get("env") or _group(document)
    except (*FAULTS, OSError) as error:
        reason = f" ({error})" if isinstance(error, OSError | ValueError) else ""
        raise UserError(
            f"--compare={path}: {file} has no results of episodes with their seeds{reason}. Name "
            f"an {EVAL_INFO} or a --json file of manyhands eval"
        ) from None
    if not results:
        raise UserError(f"--compare={path}: {file} has no episodes")
    return SavedResults(file, env, sorted(results, key=lambda result: result.seed))


def refuse_unlike(one: SavedResults, other: SavedResults) -> None:
    """Reject results of different environments or seeds."""
    for name in sorted(one.env.keys() & other.env.keys()):
        if one.env[name] != other.env[name] and not name.startswith(ONLY_IN_VIDEOS):
            raise UserError(
                f"--compare: the environments differ: {name} is {one.env[name]} in {one.file} and "
                f"{other.env[name]} in {other.file}. Evaluate both in the same environment"
            )
    seeds, others = ([result.seed for result in each.results] for each in (one, other))
    if seeds != others:
        raise UserError(
            f"--compare: the seeds differ: {_span(seeds)} in {one.file}, {_span(others)} in "
            f"{other.file}. Evaluate both with the same --seed and --eval.n_episodes"
        )


def _span(seeds: list[int]) -> str:
    return f"{len(seeds)} from {seeds[0]} to {seeds[-1]}"


def _episode(row: dict[str, Any]) -> EpisodeResult:
    return EpisodeResult(
        index=int(row["episode_ix"]),
        seed=int(row["seed"]),
        success=bool(row["success"]),
        sum_reward=float(row["sum_reward"]),
        max_reward=float(row["max_reward"]),
        length=int(row.get("length", 0)),
        error=row.get("error"),
    )


def _group(document: dict[str, Any]) -> dict[str, Any]:
    """The environment's type where nothing else is said, as in LeRobot's file."""
    groups = [task["task_group"] for task in document.get("per_task", ())]
    return {"type": groups[0]} if groups else {}
