"""Convert an ALOHA robot's joints to and from pi models: other signs, grippers as angles."""

import torch
from torch import Tensor

_TURNED = (1, 2, 8, 9)
_GRIPPERS = (6, 13)

_CLOSED_M, _OPEN_M = 0.01844, 0.058  # Range of a gripper's opening, in meters.
_ARM_M, _HORN_M = 0.036, 0.022  # The levers between a gripper's motor and its fingers.
_FIRST_RAD, _SPAN_RAD = 0.4, 1.1  # Start and range of pi's gripper angles; they end at 1.5.
_MOTOR_CLOSED_RAD, _MOTOR_SPAN_RAD = -0.6213, 2.1123  # Motor range of ALOHA's commands from 0 to 1.


def adapted_state(state: Tensor) -> Tensor:
    """A state (..., joints) in the convention of pi models."""
    apart = _CLOSED_M + state * (_OPEN_M - _CLOSED_M)
    sine = (_HORN_M**2 + apart**2 - _ARM_M**2) / (2 * _HORN_M * apart)
    return _replaced(state, (sine.clamp(-1, 1).asin() - _FIRST_RAD) / _SPAN_RAD)


def adapted_action(action: Tensor) -> Tensor:
    """Actions (..., joints) as pi models predict them."""
    angle = _MOTOR_CLOSED_RAD + action * _MOTOR_SPAN_RAD
    return _replaced(action, (angle - _FIRST_RAD) / _SPAN_RAD)


def restored_action(action: Tensor) -> Tensor:
    """Predicted actions (..., joints) in the robot's convention."""
    angle = _FIRST_RAD + action * _SPAN_RAD
    return _replaced(action, (angle - _MOTOR_CLOSED_RAD) / _MOTOR_SPAN_RAD)


def _replaced(joints: Tensor, grippers: Tensor) -> Tensor:
    columns = list(joints.unbind(dim=-1))
    for place in _TURNED:
        columns[place] = -columns[place]
    for place in _GRIPPERS:
        columns[place] = grippers[..., place]
    return torch.stack(columns, dim=-1)
