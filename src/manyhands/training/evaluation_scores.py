"""Scores of an evaluation during training: as metrics, and as lines of the log."""

from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from manyhands.config.train import TrainConfig
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import Score, score
from manyhands.evaluation.verdict import verdict_entries, verdict_line
from manyhands.observe.progress_line import Metrics

SUCCESS = "eval_success"
FOLDER = "eval"
MAX_VIDEOS = 4

T = TypeVar("T")


class ScoreLog:
    """Logs the evaluations of a run, and the verdict on that of its last step."""

    def __init__(self, config: TrainConfig) -> None:
        self._expected = config.eval.expected_success
        self._last_step = config.num_steps
        self.messages: SimpleQueue[str] = SimpleQueue()
        self.facts: dict[str, Any] = {}
        """The verdict and its numbers, for run.json; empty without an expectation."""

    def add(
        self, step: int, results: Sequence[EpisodeResult], seconds: float, note: str = ""
    ) -> Metrics:
        """Log the evaluation of a step, with a note; return its metrics."""
        total = score(results)
        first, *others = lines_of(total, results, seconds)
        for line in (f"{first}{note}", *others):
            self.messages.put(line)
        metrics = metrics_of(total, seconds)
        if self._expected is None:
            return metrics
        if step == self._last_step:
            self.messages.put(verdict_line(total, self._expected))
            found = {"success": total.success, "interval": list(total.interval)}
            found |= {"num_episodes": total.num_episodes}
            self.facts = {"evaluation": found | verdict_entries(total, self._expected)}
        low, high = self._expected
        return metrics | {"eval_expected_low": low / 100, "eval_expected_high": high / 100}


def metrics_of(total: Score, seconds: float) -> Metrics:
    """The score of a row of metrics; success is from 0 to 1."""
    low, high = total.interval
    return {
        SUCCESS: total.success,
        "eval_success_low": low,
        "eval_success_high": high,
        "eval_max_reward": total.mean_max_reward,
        "eval_sum_reward": total.mean_sum_reward,
        "eval_length": total.mean_length,
        "eval_episodes": total.num_episodes,
        "eval_s": seconds,
    }


def lines_of(total: Score, results: Sequence[EpisodeResult], seconds: float) -> list[str]:
    """The score for people, and a warning if environments crashed."""
    low, high = (100 * share for share in total.interval)
    lines = [
        f"Evaluated {total.num_episodes} episodes: success {100 * total.success:.1f} % "
        f"[{low:.0f}, {high:.0f}], max reward {total.mean_max_reward:.2f}, {seconds:.0f} s"
    ]
    crashed = [result for result in results if result.error is not None]
    if crashed:
        lines.append(
            f"WARNING: {len(crashed)} episodes crashed and count as failures; seed "
            f"{crashed[0].seed}: {crashed[0].error}"
        )
    return lines


def emptied(queue: SimpleQueue[T]) -> list[T]:
    """All that a queue holds; it is empty then."""
    return [queue.get_nowait() for _ in range(queue.qsize())]
