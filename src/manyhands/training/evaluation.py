"""Success in simulation during training: on all ranks, without any effect on training.

Every rank runs its slice of the episodes with the averaged weights, or with the live ones if there
is no average. The results are the same numbers on any number of ranks.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError, UserError
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.files import EvaluationFiles, write_evaluation
from manyhands.evaluation.rollout_control import RolloutControl
from manyhands.evaluation.run import run_episodes
from manyhands.observe.clock import Clock
from manyhands.observe.progress_line import Metrics
from manyhands.parallel.stop_notice import StopNotice
from manyhands.parallel.world import World
from manyhands.training.evaluation_scores import FOLDER, MAX_VIDEOS, ScoreLog, emptied
from manyhands.training.periods import Periods
from manyhands.training.side_evaluation import SideRollouts
from manyhands.training.step.ema import LIVE, Weights
from manyhands.training.step.learner import Learner

T = TypeVar("T")


class Rollouts:
    """Episodes of the policy in training, and what they amount to."""

    def __init__(
        self,
        config: TrainConfig,
        evaluator: Evaluator,
        weights: Weights,
        world: World,
        run_dir: Path,
    ) -> None:
        self._evaluator = evaluator
        *_, self._in_place = weights.values()
        self._world = world
        self._folder = run_dir / FOLDER
        self.log = ScoreLog(config)
        # Always empty: all ranks wait for the scores.
        self.unscored_steps: set[int] = set()

    def scores(self, step: int) -> Metrics:
        """Collective. Run all episodes; a stop request or a broken environment returns nothing."""
        with self._in_place():
            start = time.monotonic()
            results = self._attempt(
                step, lambda: run_episodes(self._evaluator, self._world, lambda _: None)
            )
            seconds = time.monotonic() - start
            if results is None or len(results) < self._evaluator.num_episodes:
                return {}
            metrics = self.log.add(step, results, seconds)
            files = EvaluationFiles(self._folder / str(step), MAX_VIDEOS)
            warning = self._attempt(
                step,
                lambda: write_evaluation(self._evaluator, results, seconds, files, self._world),
            )
            if warning is not None:
                self._warn(step, warning)
        return metrics

    def _warn(self, step: int, reason: object) -> None:
        self.log.messages.put(f"WARNING: evaluation after step {step}: {reason}")

    def _attempt(self, step: int, work: Callable[[], T]) -> T | None:
        """Collective. Work whose usage errors, the same on all ranks, do not end the run."""
        try:
            return work()
        except UserError as error:
            self._warn(step, error)
            return None
        finally:
            if self._world.device.type == "cuda":
                # Predictions need other sizes than training, which may need all of the memory.
                self._world.free_memory()

    def late_scores(self) -> list[tuple[int, Metrics]]:
        """None: all ranks wait for the scores."""
        return []

    def finish(self, stopping: bool) -> bool:
        """False: nothing is left to wait for."""
        return False


class PeriodicEvaluation:
    """Evaluates periodically; never without an environment."""

    def __init__(
        self, rollouts: Rollouts | SideRollouts | None, periods: Periods, clock: Clock
    ) -> None:
        self._rollouts = rollouts
        self._periods = periods
        self._clock = clock

    def scores_after(self, step: int) -> Metrics:
        """Collective. The scores if an evaluation is scheduled after a step, else nothing."""
        if self._rollouts is None or not self._periods.evaluate(step):
            return {}
        with self._clock.timing("evaluate"):
            return self._rollouts.scores(step)

    def messages(self) -> list[str]:
        """Messages about evaluations since the last call."""
        return [] if self._rollouts is None else emptied(self._rollouts.log.messages)

    def facts(self) -> dict[str, Any]:
        """The verdict on the last evaluation, for run.json; empty if there is none."""
        return {} if self._rollouts is None else self._rollouts.log.facts

    def late_scores(self) -> list[tuple[int, Metrics]]:
        """Scores of earlier steps that arrived since the last call."""
        return [] if self._rollouts is None else self._rollouts.late_scores()

    def unscored_steps(self) -> set[int]:
        """Steps whose scores have not arrived yet, as far as the main rank knows."""
        return set() if self._rollouts is None else self._rollouts.unscored_steps

    def finish(self, stopping: bool) -> bool:
        """Collective. Wait for evaluations; return whether a stop request ended one."""
        return self._rollouts is not None and self._rollouts.finish(stopping)


def build_rollouts(
    config: TrainConfig, learner: Learner, world: World, run_dir: Path
) -> Rollouts | SideRollouts | None:
    """Collective. The episodes of a config, tried out; None if it asks for none."""
    if config.env is None or not config.evaluates:
        return None
    weights = learner.ema.weights if config.ema.use_for_eval else LIVE
    evaluator = partial(Evaluator, learner.policy, config.env, config.eval, config.seed)
    if config.eval.async_:
        world.on_main(lambda: evaluator().try_out())
        return SideRollouts(config, learner, weights, run_dir)
    if world.strategy.is_sharded:
        # Ranks predict at different times, but gather sharded weights at the same time.
        raise ConfigError(
            f"--env.type={config.env.type}: processes with sharded weights cannot evaluate. Set "
            "--eval.async=true, or --env_eval_freq=0 and use manyhands eval, or do not shard"
        )
    made: list[Evaluator] = []

    def build() -> None:
        made.append(evaluator(RolloutControl(StopNotice(world))))
        made[0].try_out()

    world.on_every_rank(build)
    return Rollouts(config, made[0], weights, world, run_dir)
