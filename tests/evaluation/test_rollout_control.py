"""Episodes that give way to training."""

import time

import pytest

from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.rollout_control import LimitedUse, RolloutControl


def seconds_of(use: LimitedUse, work_s: float) -> float:
    start = time.monotonic()
    with use():
        time.sleep(work_s)
    return time.monotonic() - start


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_prediction_is_followed_by_a_rest_in_proportion(share):
    assert seconds_of(LimitedUse(share, lambda: False), work_s=0.02) >= 0.02 / share


def test_a_rest_ends_when_the_gpu_becomes_free():
    asked: list[None] = []

    def is_free() -> bool:
        asked.append(None)
        return len(asked) > 2

    assert seconds_of(LimitedUse(1e-3, is_free), work_s=0.02) < 10
    assert len(asked) == 3


def test_results_are_those_of_full_speed(act_policy):
    config = EvalConfig(n_episodes=3, use_async_envs=False)

    def results(control: RolloutControl | None) -> list[object]:
        evaluator = Evaluator(act_policy, TrayEnvConfig(episode_length=9), config, 5, control)
        return [*evaluator.results(evaluator.tasks(0, 1))]

    limited = RolloutControl(predicting=LimitedUse(0.8, lambda: False))
    assert results(limited) == results(None)
