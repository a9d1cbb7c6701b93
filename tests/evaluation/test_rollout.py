"""A crash ends its own episode and changes no other."""

import pytest

from manyhands.config.sections.eval import EvalConfig
from manyhands.errors import UserError
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.rollout import EpisodeResult, refuse_broken

SEED, NUM_EPISODES = 1000, 7
TIMEOUT_S = 10.0
REASONS = {
    "raise": "the environment raised ValueError: the toy is broken",
    "die": "the environment's process died with exit code -9",
    "hang": "the environment did not answer within 10 s (--eval.timeout_s)",
}


@pytest.fixture(scope="module")
def results(act_policy, point_env):
    """The results of episodes, some of which have faults by their seeds."""

    def run(use_async_envs=True, on_result=lambda _: None, **arguments):
        settings = EvalConfig(
            n_episodes=NUM_EPISODES,
            batch_size=3,
            use_async_envs=use_async_envs,
            timeout_s=TIMEOUT_S,
        )
        evaluator = Evaluator(act_policy, point_env(**arguments), settings, SEED)
        return evaluator.results(evaluator.tasks(0, 1), on_result)

    return run


@pytest.fixture(scope="module")
def expected(results):
    return results(use_async_envs=False)


def test_episodes_that_raise_die_or_hang_fail_alone_and_say_why(results, expected):
    faults = {SEED: "raise", SEED + 2: "die", SEED + 5: "hang"}
    found = results(faults=faults)
    for result, good in zip(found, expected, strict=True):
        if result.seed not in faults:
            assert result == good
            continue
        assert result.error.startswith(REASONS[faults[result.seed]])
        assert (result.index, result.seed) == (good.index, good.seed)
        assert (result.success, result.length, result.max_reward) == (False, 0, 0.0)


def test_an_environment_that_raises_in_this_process_fails_alone(results, expected):
    found = results(use_async_envs=False, faults={SEED + 3: "raise"})
    assert [result for result in found if result.error is None] == [
        result for result in expected if result.seed != SEED + 3
    ]
    assert REASONS["raise"] in found[3].error


def test_a_usage_error_after_the_first_episode_ends_its_own_alone(results, expected):
    found = results(use_async_envs=False, faults={SEED + 5: "no egl"})
    assert found[:5] + found[6:] == expected[:5] + expected[6:]
    assert "cannot render images" in found[5].error and "libegl1" in found[5].error
    with pytest.raises(UserError, match="cannot render images"):
        results(use_async_envs=False, faults={SEED: "no egl"})


@pytest.mark.parametrize("fault", REASONS)
def test_environments_that_all_fail_end_the_evaluation_at_once(results, fault):
    seen = []
    with pytest.raises(UserError) as caught:
        results(on_reset=fault, on_result=seen.append)
    assert f"no episode could be run: {REASONS[fault]}" in str(caught.value)
    assert len(seen) < 3  # The first of every environment.


def result(index, error):
    return EpisodeResult(
        index=index, seed=index, success=False, sum_reward=0, max_reward=0, length=0, error=error
    )


def test_one_good_episode_lets_the_others_run():
    refuse_broken([result(0, "broken")], at_least=2)
    refuse_broken([result(0, "broken"), result(1, None), result(2, "broken")], at_least=2)
    with pytest.raises(UserError, match="no episode could be run: broken"):
        refuse_broken([result(0, "broken"), result(1, "broken")], at_least=2)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_crash_of_the_first_episode_is_one_failure_in_any_number_of_environments(
    act_policy, point_env, batch_size
):
    settings = EvalConfig(n_episodes=4, batch_size=batch_size, use_async_envs=False)
    evaluator = Evaluator(act_policy, point_env(faults={SEED: "raise"}), settings, SEED)
    found = evaluator.results(evaluator.tasks(0, 1))
    assert [each.error is None for each in found] == [False, True, True, True]
