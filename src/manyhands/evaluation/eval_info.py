"""Results of an evaluation as LeRobot writes them, and as programs read them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import score
from manyhands.evaluation.verdict import Band, verdict_entries


def eval_info(
    results: Sequence[EpisodeResult],
    group: str,
    seconds: float,
    videos: Mapping[int, str],
    expected: Band | None = None,
) -> dict[str, Any]:
    """The contents of `eval_info.json`; `videos` are paths by episode."""
    total = score(results)
    paths = [videos[result.index] for result in results if result.index in videos]
    aggregated = {
        "avg_sum_reward": total.mean_sum_reward,
        "avg_max_reward": total.mean_max_reward,
        "pc_success": 100 * total.success,
        "n_episodes": total.num_episodes,
    }
    films = {"video_paths": paths, "predicted_video_paths": []}
    times = {"eval_s": seconds, "eval_ep_s": seconds / total.num_episodes}
    metrics = {
        "sum_rewards": [result.sum_reward for result in results],
        "max_rewards": [result.max_reward for result in results],
        "successes": [result.success for result in results],
    }
    return {
        "per_task": [{"task_group": group, "task_id": 0, "metrics": metrics | films}],
        "per_group": {group: aggregated | films},
        "overall": aggregated | times | films,
        "per_episode": [episode_row(result) for result in results],
        **verdict_entries(total, expected),
    }


def episode_row(result: EpisodeResult) -> dict[str, Any]:
    """One episode."""
    row = {name: value for name, value in vars(result).items() if name not in ("film", "index")}
    return {"episode_ix": result.index} | row


def as_json(
    results: Sequence[EpisodeResult], seconds: float, expected: Band | None = None
) -> dict[str, Any]:
    """The results for programs."""
    total = score(results)
    rows = [episode_row(result) for result in results]
    found = asdict(total) | verdict_entries(total, expected)
    return found | {"wall_s": seconds, "episodes": rows}
