"""Rolling a policy out: each world once, until it has finished."""

import numpy as np
import torch
from torch import nn

from manyhands.sim import task
from manyhands.sim.tray.expert import Expert
from manyhands.sim.rollout import Film, roll_out
from manyhands.sim.tray.task import TrayTask


class ScriptedPolicy:
    """The expert as a policy; it reads the same tensors that a learned one would."""

    def __init__(self, seed_groups: list[list[int]]) -> None:
        self.network = nn.Linear(1, 1)
        self.batches: list[dict] = []
        self._groups = iter(seed_groups)

    def reset(self) -> None:
        self._expert = Expert(next(self._groups))

    def select_action(self, observation: dict) -> torch.Tensor:
        self.batches.append(observation)
        arrays = {name: value.numpy() for name, value in observation.items() if name != "task"}
        return torch.from_numpy(self._expert.action(arrays))


class StillPolicy:
    """Never moves."""

    network = nn.Linear(1, 1)

    def reset(self) -> None: ...

    def select_action(self, observation: dict) -> torch.Tensor:
        return observation[task.STATE][:, [0, 1, 3]]


def test_the_expert_as_a_policy_succeeds_everywhere_and_results_keep_the_seeds_order():
    seeds = [5, 3, 8, 1, 9]
    policy = ScriptedPolicy([[5, 3], [8, 1], [9]])
    results = roll_out(policy, TrayTask(2), seeds, task.MAX_STEPS)
    assert [result.seed for result in results] == seeds
    for result in results:
        assert result.success
        assert result.max_reward == 1.0
        assert 20 < result.length < task.MAX_STEPS


def test_results_do_not_depend_on_how_many_worlds_run_together():
    seeds = [5, 3, 8]
    together = roll_out(ScriptedPolicy([seeds]), TrayTask(3), seeds, task.MAX_STEPS)
    alone = roll_out(ScriptedPolicy([[s] for s in seeds]), TrayTask(1), seeds, task.MAX_STEPS)
    assert together == alone


def test_a_finished_world_collects_no_more_reward():
    lengths = {}
    for seeds in ([5], [5, 3, 8]):
        result = roll_out(ScriptedPolicy([seeds]), TrayTask(3), seeds, task.MAX_STEPS)[0]
        lengths[len(seeds)] = (result.length, result.sum_reward)
        assert result.sum_reward <= 0.5 * (result.length - 1) + 1.0
    assert lengths[1] == lengths[3]


def test_a_policy_that_never_moves_fails_after_all_steps():
    (result,) = roll_out(StillPolicy(), TrayTask(1), [0], max_steps=12)
    assert (result.success, result.length, result.max_reward) == (False, 12, 0.0)


def test_policies_see_channel_first_bytes_and_the_instruction():
    policy = ScriptedPolicy([[1, 2]])
    roll_out(policy, TrayTask(2, frame_size=16), [1, 2], max_steps=2)
    batch = policy.batches[0]
    assert batch[task.CAMERA].shape == (2, 3, 16, 16)
    assert batch[task.CAMERA].dtype == torch.uint8
    assert batch[task.STATE].dtype == torch.float32
    assert batch["task"] == [task.INSTRUCTION] * 2


def test_only_filmed_seeds_have_frames_from_the_first_to_the_last_moment():
    seeds = [5, 3]
    film = Film(seeds=[3], frame_size=20)
    first, second = roll_out(ScriptedPolicy([seeds]), TrayTask(2), seeds, task.MAX_STEPS, film)
    assert first.frames is None
    assert second.frames.shape == (second.length + 1, 20, 20, 3)

    world = TrayTask(1)
    world.reset([3])
    np.testing.assert_array_equal(second.frames[0], world.render(20)[0])
