"""LeRobot's evaluation: its environment and its policies in it, step by step."""

from typing import Any

import torch
from given_draws import GivenDraws
from lerobot.envs.configs import PushtEnv
from lerobot.envs.factory import make_env
from lerobot.envs.utils import preprocess_observation
from lerobot_policy import load_policy
from safetensors.torch import load_file, save_file
from torch import Tensor

OBSERVED = "observation."


def act_in_pusht(folder: str, seed: int, given: str, out: str) -> dict[str, Any]:
    """Execute given actions in an episode, and choose one of its own at every step.

    The noise of a step is given as `noise/<step>`, in the order in which it is drawn; steps without
    it must draw nothing.
    """
    policy, pre, post = load_policy(folder)
    tensors = load_file(given)
    actions = tensors["actions"]
    env = make_env(PushtEnv(episode_length=len(actions)), n_envs=1)["pusht"][0]
    policy.eval().reset()
    observation, _ = env.reset(seed=[seed])
    found: dict[str, list[Tensor]] = {"actions": [], "rewards": []}
    for step, action in enumerate(actions):
        frame = preprocess_observation(observation)
        for name, value in frame.items():
            found.setdefault(name, []).append(value)
        draws = tensors.get(f"noise/{step}")
        with torch.no_grad(), GivenDraws([] if draws is None else [*draws]):
            chosen = policy.select_action(pre(frame | {"task": [""]}))
        found["actions"].append(post(chosen))
        observation, reward, *_ = env.step(action[None].numpy())
        found["rewards"].append(torch.from_numpy(reward))
    env.close()
    save_file({name: torch.cat(values).contiguous() for name, values in found.items()}, out)
    return {"observed": sorted(name for name in found if name.startswith(OBSERVED))}
