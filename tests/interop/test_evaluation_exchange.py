"""A policy that either side wrote acts alike in the simulations of both."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison import Comparison
from programs import MANYHANDS, run_program
from pusht_cases import CAMERA, CASES, STATE, WRITERS, save_case
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyhands import load_policy
from manyhands.config.sections.env import PushtEnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.evaluation.actor import STREAM, sampling_draws
from manyhands.evaluation.evaluate import Evaluator
from manyhands.policies.policy import Policy
from manyhands.sim.environment import StepOutcome
from manyhands.sim.pusht import PushtEnvironment

NUM_STEPS = 32
SEED, NUM_EPISODES = 1002, 2
"""Seeds at which these policies move the block."""
DEFAULT_SEED = 1000
SEED_OF_SUCCESS = 1750937
"""Its block begins on the target."""
FLAGS = {
    "env.type": "pusht",
    "env.episode_length": NUM_STEPS,
    "env.visualization_width": 96,
    "env.visualization_height": 96,
    "eval.batch_size": 1,
    "eval.use_async_envs": "false",
    "policy.device": "cpu",
}
"""Those of both programs."""

ROUNDING = {"ACT": 5e-6, "Diffusion": 2e-5}
"""Single precision in another order; denoising feeds its result back."""
AREA_ROUNDING = 1e-12
"""gym-pusht adds up the block's parts in the order of a set."""
REWARD_ROUNDING = 1e-4
"""Rounding moves the robot, and a block that it touches turns the more for it."""


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", CASES)
def test_with_the_same_noise_both_choose_the_same_actions_in_every_step_of_an_episode(
    name, writer, lerobot, compared, tmp_path, monkeypatch
):
    folder = save_case(name, writer, tmp_path / "policy", lerobot)
    policy = load_policy(folder, "cpu")
    episodes = evaluated(policy, monkeypatch)
    assert any(len(rewards.unique()) > 1 for _, rewards in episodes), "the block never moved"
    for episode, (actions, rewards) in enumerate(episodes):
        label = f"{name}, by {writer}, in PushT, episode {episode}"
        noise = noise_of(policy, episode)
        save_file({"actions": actions, **noise}, tmp_path / "given")
        places = {"folder": folder, "given": tmp_path / "given", "out": tmp_path / "theirs"}
        found = lerobot("act_in_pusht", seed=SEED + episode, **places)
        theirs = load_file(tmp_path / "theirs")
        assert found["observed"] == [CAMERA, STATE]
        assert bool(noise) == (name == "Diffusion")
        for key, ours in observed(policy, SEED + episode, actions).items():
            compared(f"{label}: {key}", ours, theirs[key])
        compared(f"{label}: rewards", rewards, theirs["rewards"], AREA_ROUNDING, scale=1)
        compared(f"{label}: actions", actions, theirs["actions"], ROUNDING[name])
    assert compared.faults() == []


def evaluated(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """Actions and rewards of each episode of an evaluation of ours."""
    executed: list[tuple[np.ndarray, float]] = []
    step = PushtEnvironment.step

    def logged(environment: PushtEnvironment, action: np.ndarray) -> StepOutcome:
        outcome = step(environment, action)
        executed.append((action, outcome.reward))
        return outcome

    monkeypatch.setattr(PushtEnvironment, "step", logged)
    config = EvalConfig(n_episodes=NUM_EPISODES, batch_size=1, use_async_envs=False)
    evaluator = Evaluator(policy, PushtEnvConfig(episode_length=NUM_STEPS), config, SEED)
    lengths = [result.length for result in evaluator.results(evaluator.tasks(0, 1))]
    monkeypatch.undo()
    assert lengths == [NUM_STEPS] * NUM_EPISODES
    columns = (torch.from_numpy(np.stack(values)) for values in zip(*executed, strict=True))
    actions, rewards = (values.split(NUM_STEPS) for values in columns)
    return [*zip(actions, rewards, strict=True)]


def noise_of(policy: Policy, episode: int) -> dict[str, Tensor]:
    """The noise of the steps that predict a chunk, in the order in which LeRobot draws it."""
    steps = range(0, NUM_STEPS, policy.config.num_executed_actions)
    positions = torch.tensor([episode * NUM_STEPS + step for step in steps])
    draws = sampling_draws(policy, CounterSource(derive_key(SEED, STREAM), positions))
    if not draws:
        return {}
    drawn = torch.cat([draws["sampling_noise"][:, None], draws["step_noise"]], dim=1)
    return {
        f"noise/{step}": each.unsqueeze(1).contiguous()
        for step, each in zip(steps, drawn, strict=True)
    }


def observed(policy: Policy, seed: int, actions: Tensor) -> dict[str, Tensor]:
    """What our environment shows before each of these actions, in the form of LeRobot's batches."""
    inputs = {name: item.shape for name, item in policy.config.input_features.items()}
    environment = PushtEnvironment(PushtEnvConfig(), inputs)
    environment.reset(seed)
    seen = []
    for action in actions.numpy():
        seen.append(environment.observe())
        environment.step(action)
    states, images = (
        torch.from_numpy(np.stack([each[name] for each in seen])) for name in (STATE, CAMERA)
    )
    return {STATE: states, CAMERA: images.movedim(-1, 1).float() / 255}


@pytest.mark.parametrize(
    ("writer", "first_seed", "successes"),
    [
        ("manyhands", DEFAULT_SEED, [False] * 4),
        ("LeRobot", SEED_OF_SUCCESS - 1, [False, True, False]),
    ],
)
def test_both_programs_reward_a_policy_that_draws_nothing_alike(
    writer, first_seed, successes, lerobot, compared, tmp_path
):
    folder = save_case("ACT", writer, tmp_path / "policy", lerobot)
    flags = {"eval.n_episodes": len(successes)}
    if first_seed != DEFAULT_SEED:
        flags["seed"] = first_seed
    programs = (MANYHANDS, lerobot.python.with_name("lerobot-eval"))
    ours, theirs = (evaluated_by(program, folder, flags) for program in programs)
    compare_results(compared, f"ACT, by {writer}, evaluated", ours, theirs)
    assert metrics(ours)["successes"] == successes
    assert [row["seed"] - first_seed for row in ours["per_episode"]] == [*range(len(successes))]
    compared.same("eval_info.json: keys that only LeRobot writes", keys(theirs) - keys(ours), set())
    assert compared.faults() == []


@pytest.mark.parametrize("writer", WRITERS)
def test_each_program_evaluates_a_diffusion_policy_of_the_other(
    writer, lerobot, compared, tmp_path
):
    folder = save_case("Diffusion", writer, tmp_path / "policy", lerobot)
    program = lerobot.python.with_name("lerobot-eval") if writer == "manyhands" else MANYHANDS
    info = evaluated_by(program, folder, {"eval.n_episodes": 2})
    compared.same(f"Diffusion, by {writer}: episodes evaluated", info["overall"]["n_episodes"], 2)
    assert all(0 <= each <= NUM_STEPS for each in metrics(info)["sum_rewards"])
    assert compared.faults() == []


def evaluated_by(program: Path, folder: Path, flags: dict[str, Any]) -> dict[str, Any]:
    """The results that a program wrote; its videos are there."""
    out = folder.with_name(program.name)
    named = FLAGS | {"policy.path": folder, "output_dir": out} | flags
    run_program(program, named, *(("eval",) if program == MANYHANDS else ()))
    info: dict[str, Any] = json.loads((out / "eval_info.json").read_text())
    videos = metrics(info)["video_paths"]
    assert len(videos) == flags["eval.n_episodes"]
    assert all(Path(video).is_file() for video in videos)
    return info


def compare_results(compared: Comparison, label: str, ours: Any, theirs: Any) -> None:
    """Rewards and success of every episode, and over all."""
    for name in ("sum_rewards", "max_rewards"):
        both = (torch.tensor(metrics(info)[name], dtype=torch.float64) for info in (ours, theirs))
        compared(f"{label}: {name}", *both, REWARD_ROUNDING, scale=1)
    both_successes = (metrics(info)["successes"] for info in (ours, theirs))
    compared.same(f"{label}: successes", *both_successes)
    for name in ("avg_sum_reward", "avg_max_reward", "pc_success", "n_episodes"):
        totals = (float(info["overall"][name]) for info in (ours, theirs))
        compared(f"{label}: {name}", *totals, REWARD_ROUNDING, scale=1)


def metrics(info: dict[str, Any]) -> dict[str, Any]:
    """Values of the one task, by episode."""
    (task,) = info["per_task"]
    assert task["task_group"] == "pusht"
    found: dict[str, Any] = task["metrics"]
    return found


def keys(info: Any) -> set[str]:
    """Names of all entries, nested ones with slashes; those of a list are numbers."""
    entries = dict(enumerate(info)) if isinstance(info, list) else info
    if not isinstance(entries, dict):
        return set()
    return {
        name
        for key, value in entries.items()
        for name in (str(key), *(f"{key}/{below}" for below in keys(value)))
    }
