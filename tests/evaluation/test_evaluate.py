"""Every episode runs once, with the same result beside whichever others and on whichever rank."""

import io
from dataclasses import replace

import av
import pytest
import torch

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.errors import UserError
from manyhands.evaluation import actor
from manyhands.evaluation.actor import Actor
from manyhands.evaluation.evaluate import Evaluator, tf32_on_gpu
from manyhands.evaluation.films import filming_task
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.rollout_control import RolloutControl
from manyhands.sim.build import build_environment
from manyhands.sim.tray.environment import TrayEnvironment

NUM_EPISODES = 11
TRAY = TrayEnvConfig(episode_length=14)


@pytest.fixture(scope="module")
def evaluated(point_env):
    """Evaluates a policy as several ranks would, one after the other."""

    def evaluate(policy, num_ranks=1, **config):
        settings = EvalConfig(n_episodes=NUM_EPISODES, **config)
        evaluator = Evaluator(policy, point_env(), settings, 1000)
        parts = [evaluator.results(evaluator.tasks(rank, num_ranks)) for rank in range(num_ranks)]
        return [result for part in parts for result in part]

    return evaluate


@pytest.fixture(scope="module")
def expected(policy, evaluated):
    """What each episode of a policy leads to, in one environment after the other."""
    return evaluated(policy, batch_size=1, use_async_envs=False)


def test_every_episode_runs_once_with_its_own_seed(expected):
    assert [result.seed for result in expected] == list(range(1000, 1011))
    assert [result.index for result in expected] == list(range(11))
    assert len({result.sum_reward for result in expected}) == 11


@pytest.mark.parametrize(("num_ranks", "batch_size"), [(1, 10), (2, 4), (3, 1), (3, 10)])
def test_results_are_the_same_on_any_number_of_ranks_and_environments(
    policy, evaluated, expected, num_ranks, batch_size
):
    found = evaluated(policy, num_ranks, batch_size=batch_size, use_async_envs=False)
    assert found == expected


@pytest.mark.parametrize("batch_size", [0, 10])
def test_results_are_the_same_in_groups_that_take_turns(
    policy, evaluated, expected, batch_size, monkeypatch
):
    monkeypatch.setattr(actor, "GROUPS_ON_CPU", 2)
    calls = []
    chunks = Actor.chunks

    def record(self, requests, max_steps):
        calls.append([request.episode for request in requests])
        return chunks(self, requests, max_steps)

    monkeypatch.setattr(Actor, "chunks", record)
    assert evaluated(policy, batch_size=batch_size, use_async_envs=False) == expected
    num_rows = actor.ROWS_ON_CPU
    assert calls[0] == [*range(num_rows)] and min(calls[1]) >= num_rows
    # Episodes of the same row never share a batch.
    assert all(len({each % num_rows for each in call}) == len(call) for call in calls)


def test_results_are_the_same_in_processes(act_policy, evaluated):
    expected = evaluated(act_policy, use_async_envs=False)
    assert evaluated(act_policy, 2, batch_size=3) == expected


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7, 20])
def test_ranks_share_all_episodes(act_policy, num_ranks):
    settings = EvalConfig(n_episodes=NUM_EPISODES, use_async_envs=False)
    evaluator = Evaluator(act_policy, TrayEnvConfig(), settings, 5)
    parts = [evaluator.tasks(rank, num_ranks) for rank in range(num_ranks)]
    assert [(each.index, each.seed) for part in parts for each in part] == [
        (index, 5 + index) for index in range(NUM_EPISODES)
    ]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_an_episode_acts_as_the_policy_does_alone_step_by_step(policy, expected, point_env):
    """The queue of actions, the history and temporal ensembling are those of select_action."""
    if policy.config.type == "diffusion":
        pytest.skip("its noise is drawn otherwise")
    inputs = {name: item.shape for name, item in policy.config.input_features.items()}
    environment = build_environment(point_env(), inputs)
    environment.reset(1003)
    policy.reset()
    rewards = []
    for _ in range(point_env().episode_length):
        observation = {
            name: torch.from_numpy(value)[None] for name, value in environment.observe().items()
        }
        action = policy.select_action(observation)[0].numpy()
        rewards.append(environment.step(action).reward)
    found = expected[3]
    assert (found.sum_reward, found.length) == (pytest.approx(sum(rewards)), len(rewards))
    assert found.max_reward == pytest.approx(max(rewards))


def test_a_filmed_episode_goes_the_same_way(act_policy, point_env):
    settings = EvalConfig(n_episodes=4, use_async_envs=False)
    evaluator = Evaluator(act_policy, point_env(), settings, 7)
    plain = evaluator.results(evaluator.tasks(0, 1))
    (filmed,) = evaluator.results([filming_task(plain[2], 10)])
    assert filmed == plain[2] and plain[2].film is None
    with av.open(io.BytesIO(filmed.film.video)) as container:
        assert sum(1 for _ in container.decode(video=0)) == filmed.length + 1


def test_each_result_is_reported_when_its_episode_ends(act_policy, point_env):
    settings = EvalConfig(n_episodes=5, use_async_envs=False)
    evaluator = Evaluator(act_policy, point_env(), settings, 7)
    seen = []
    results = evaluator.results(evaluator.tasks(0, 1), seen.append)
    assert sorted(seen, key=lambda result: result.index) == results
    assert evaluator.results([]) == []


def test_a_policy_with_a_rename_map_reads_what_arrives(act_policy, point_env, monkeypatch):
    settings = EvalConfig(n_episodes=2, use_async_envs=False)
    evaluator = Evaluator(act_policy, point_env(), settings, 7)
    expected = evaluator.results(evaluator.tasks(0, 1))
    rename_map = act_policy.processors.rename_map
    monkeypatch.setitem(rename_map, "observation.position", "observation.state")
    env = point_env()
    keys = {**env.observation_keys, "observation.position": "agent_pos"}
    evaluator = Evaluator(act_policy, replace(env, observation_keys=keys), settings, 7)
    assert evaluator.results(evaluator.tasks(0, 1)) == expected


@pytest.mark.parametrize("use_async_envs", [False, True])
def test_a_policy_that_the_environment_cannot_feed_is_refused_before_anything_runs(
    act_policy, use_async_envs
):
    act_policy.config.input_features["observation.images.wrist"] = PolicyFeature(
        FeatureType.VISUAL, (3, 8, 8)
    )
    settings = EvalConfig(use_async_envs=use_async_envs)
    try:
        with pytest.raises(UserError, match=r"does not give observation\.images\.wrist"):
            Evaluator(act_policy, TrayEnvConfig(), settings, 0)
    finally:
        del act_policy.config.input_features["observation.images.wrist"]


@pytest.mark.parametrize("use_async_envs", [False, True])
def test_a_policy_whose_actions_the_environment_cannot_take_is_refused_before_anything_runs(
    make_policy, use_async_envs, monkeypatch
):
    policy = make_policy()
    monkeypatch.setitem(
        policy.config.input_features,
        "observation.state",
        PolicyFeature(FeatureType.STATE, (4,)),
    )
    settings = EvalConfig(use_async_envs=use_async_envs)
    with pytest.raises(UserError, match=r"tray takes actions of size 3, .* policy have size 2"):
        Evaluator(policy, TRAY, settings, 0)


@pytest.mark.parametrize(
    ("fault", "timeout_s", "told"),
    [
        ("raise", 60, "raised ValueError: the toy is broken"),
        ("die", 60, "process died with exit code -9"),
        ("hang", 1, "did not answer within 1 s"),
    ],
)
def test_an_environment_that_cannot_be_built_is_refused(
    act_policy, point_env, fault, timeout_s, told
):
    with pytest.raises(UserError, match=f"no episode could be run: .*{told}"):
        Evaluator(act_policy, point_env(on_build=fault), EvalConfig(timeout_s=timeout_s), 0)


def test_a_stop_leaves_out_the_episodes_that_have_not_ended(act_policy):
    config = EvalConfig(n_episodes=11, batch_size=2, use_async_envs=False)
    everything = Evaluator(act_policy, TRAY, config, 1000)
    expected = everything.results(everything.tasks(0, 1))
    found: list[EpisodeResult] = []
    control = RolloutControl(must_stop=lambda: len(found) >= 3)
    evaluator = Evaluator(act_policy, TRAY, config, 1000, control)
    results = evaluator.results(evaluator.tasks(0, 1), found.append)
    assert 3 <= len(results) < 11
    assert results == [each for each in expected if each in results]


def test_an_environment_is_tried_out_in_a_process_and_here(act_policy, monkeypatch):
    for use_processes in (True, False):
        Evaluator(act_policy, TRAY, EvalConfig(use_async_envs=use_processes), 7).try_out()

    def fall(*_: object) -> None:
        raise RuntimeError("no display")

    monkeypatch.setattr(TrayEnvironment, "reset", fall)
    with pytest.raises(UserError, match=r"no episode could be run: .* no display"):
        Evaluator(act_policy, TRAY, EvalConfig(use_async_envs=False), 7).try_out()


def test_a_gpu_without_room_is_reported(act_policy, monkeypatch):
    def fill(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Actor, "chunks", fill)
    evaluator = Evaluator(act_policy, TRAY, EvalConfig(n_episodes=2, use_async_envs=False), 7)
    with pytest.raises(UserError, match="not enough memory to predict for 8 episodes at once"):
        evaluator.results(evaluator.tasks(0, 1))


@pytest.mark.parametrize(("device", "inside"), [("cpu", "highest"), ("cuda", "high")])
def test_only_a_gpu_multiplies_in_tf32_and_only_meanwhile(device, inside):
    with tf32_on_gpu(torch.device(device)):
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == "highest"
