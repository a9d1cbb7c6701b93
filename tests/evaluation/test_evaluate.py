"""Every episode runs once, with the same result beside whichever others and on whichever rank."""

import pytest
import torch

from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.errors import UserError
from manyhands.evaluation.actor import Actor
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.rollout import EpisodeResult, EpisodeTask
from manyhands.sim.build import build_environment
from manyhands.sim.tray.environment import TrayEnvironment

ENV = TrayEnvConfig(episode_length=14)


def evaluated(policy, num_ranks=1, num_episodes=11, seed=1000, **config):
    evaluator = Evaluator(policy, ENV, EvalConfig(n_episodes=num_episodes, **config), seed)
    parts = [evaluator.results(evaluator.tasks(rank, num_ranks)) for rank in range(num_ranks)]
    return [result for part in parts for result in part]


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 10])
def test_results_are_the_same_on_any_number_of_ranks_and_environments(
    policy, num_ranks, batch_size
):
    expected = evaluated(policy, use_async_envs=False)
    assert [result.seed for result in expected] == list(range(1000, 1011))
    found = evaluated(policy, num_ranks, batch_size=batch_size, use_async_envs=False)
    assert found == expected


def test_results_are_the_same_in_processes(act_policy):
    expected = evaluated(act_policy, use_async_envs=False)
    assert evaluated(act_policy, 2, batch_size=3) == expected


def test_an_episode_acts_as_the_policy_does_alone_tick_by_tick(policy):
    """The queue of actions, the history and temporal ensembling are those of select_action."""
    if policy.config.type == "diffusion":
        pytest.skip("its noise is drawn otherwise")
    inputs = {name: item.shape for name, item in policy.config.input_features.items()}
    environment = build_environment(ENV, inputs)
    environment.reset(1003)
    policy.reset()
    rewards = []
    for _ in range(ENV.episode_length):
        observation = {
            name: torch.from_numpy(value)[None] for name, value in environment.observe().items()
        }
        action = policy.select_action(observation)[0].numpy()
        rewards.append(environment.step(action).reward)
    found = evaluated(policy, use_async_envs=False)[3]
    assert (found.sum_reward, found.length) == (pytest.approx(sum(rewards)), len(rewards))


def test_a_filmed_episode_goes_the_same_way(act_policy):
    evaluator = Evaluator(act_policy, ENV, EvalConfig(n_episodes=4, use_async_envs=False), 7)
    plain = evaluator.results(evaluator.tasks(0, 1))
    filmed = evaluator.results([EpisodeTask(2, 9, is_filmed=True)])
    assert filmed == [plain[2]]
    assert len(filmed[0].frames) == filmed[0].length + 1


def test_a_policy_that_the_environment_cannot_feed_is_refused_before_anything_runs(act_policy):
    act_policy.config.input_features["observation.images.wrist"] = act_policy.config.input_features[
        "observation.state"
    ]
    try:
        with pytest.raises(UserError, match=r"does not give observation\.images\.wrist"):
            evaluated(act_policy)
    finally:
        del act_policy.config.input_features["observation.images.wrist"]


def test_a_stop_leaves_out_the_episodes_that_have_not_ended(act_policy):
    config = EvalConfig(n_episodes=11, batch_size=2, use_async_envs=False)
    expected = evaluated(act_policy, use_async_envs=False)
    found: list[EpisodeResult] = []
    evaluator = Evaluator(act_policy, ENV, config, 1000, lambda: len(found) >= 3)
    results = evaluator.results(evaluator.tasks(0, 1), found.append)
    assert 3 <= len(results) < 11
    assert results == [each for each in expected if each in results]


def test_an_environment_is_tried_out_in_a_process_and_here(act_policy, monkeypatch):
    for use_processes in (True, False):
        Evaluator(act_policy, ENV, EvalConfig(use_async_envs=use_processes), 7).try_out()

    def fall(*_: object) -> None:
        raise RuntimeError("no display")

    monkeypatch.setattr(TrayEnvironment, "reset", fall)
    with pytest.raises(UserError, match=r"--env.type=tray: no episode can begin: .* no display"):
        Evaluator(act_policy, ENV, EvalConfig(use_async_envs=False), 7).try_out()


def test_a_gpu_without_room_is_reported(act_policy, monkeypatch):
    def fill(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Actor, "chunks", fill)
    with pytest.raises(UserError, match="not enough memory to predict for 8 episodes at once"):
        evaluated(act_policy, use_async_envs=False)
