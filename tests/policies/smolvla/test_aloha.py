"""An ALOHA robot's joints."""

import math

import pytest
import torch

from manyhands.policies.smolvla.aloha import adapted_action, adapted_state, restored_action


def test_predicted_actions_are_what_the_robot_was_given():
    actions = torch.rand(2, 5, 14, generator=torch.Generator().manual_seed(0))
    found = restored_action(adapted_action(actions))
    torch.testing.assert_close(found, actions, rtol=0, atol=1e-6)


def test_some_joints_turn_the_other_way_and_most_do_not():
    joints = torch.arange(14.0)
    for found in (adapted_state(joints), adapted_action(joints), restored_action(joints)):
        turned = [place for place in range(14) if found[place] == -joints[place] != 0]
        kept = [place for place in range(14) if found[place] == joints[place]]
        assert turned == [1, 2, 8, 9]
        assert kept == [0, 3, 4, 5, 7, 10, 11, 12]


def test_grippers_are_angles():
    opened, closed = torch.ones(14), torch.zeros(14)
    # Fully open, both levers lie in one line.
    straight = (math.pi / 2 - 0.4) / 1.1
    assert adapted_state(opened)[6].item() == pytest.approx(straight, abs=1e-3)
    assert adapted_action(closed)[13].item() == pytest.approx((-0.6213 - 0.4) / 1.1, abs=1e-6)


def test_what_is_given_stays_as_it_is():
    joints = torch.rand(1, 14)
    before = joints.clone()
    adapted_state(joints)
    adapted_action(joints)
    assert torch.equal(joints, before)
