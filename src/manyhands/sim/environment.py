"""A simulated environment as a policy sees it: one episode at a time, LeRobot's keys."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from manyhands.errors import UserError

Observation = dict[str, np.ndarray]
"""Arrays by input of the policy; images are (height, width, 3) bytes."""
Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of a policy's inputs by name; images are (3, height, width)."""


class StepOutcome(NamedTuple):
    """What one action led to."""

    reward: float
    success: bool
    ended: bool
    """Whether the environment ended the episode; success does in any case."""


class Environment(Protocol):
    """One simulated world. Rendering is slow, so an observation is made only on request."""

    instruction: str
    """Task text for policies that read language."""
    action_size: int
    """Numbers in an action."""

    def reset(self, seed: int) -> None:
        """Begin the episode of a seed."""

    def step(self, action: np.ndarray) -> StepOutcome:
        """Execute one action."""

    def observe(self) -> Observation:
        """What the policy reads of the current state."""

    def render(self) -> np.ndarray:
        """An image (height, width, 3) for people."""


def given_inputs(inputs: Shapes, offered: Collection[str], optional: Collection[str]) -> Shapes:
    """The inputs without optional ones that are not offered; one of those must be."""
    if not any(name in offered for name in optional):
        return inputs
    return {name: inputs[name] for name in inputs if name in offered or name not in optional}


def chosen_inputs(
    kind: str, offered: Mapping[str, Any], inputs: Shapes, optional: Collection[str] = ()
) -> Shapes:
    """The inputs that an environment gives; rejects missing ones and those of another size.

    Images are rendered in the size that the policy reads, so they are offered as None.
    """
    inputs = given_inputs(inputs, offered, optional)
    missing = [name for name in inputs if name not in offered]
    if missing:
        remedy = proposed_renames(offered, inputs, optional) or (
            "Evaluate a policy with these inputs, or choose another --env.type"
        )
        raise UserError(
            f"--env.type={kind} does not give {', '.join(missing)}, which the policy reads; it "
            f"gives {', '.join(offered)}. {remedy}"
        )
    for name, shape in inputs.items():
        if offered[name] is not None and tuple(offered[name]) != tuple(shape):
            raise UserError(
                f"--env.type={kind} gives {name} with shape {tuple(offered[name])}, but the "
                f"policy reads {tuple(shape)}. Evaluate a policy trained for this environment"
            )
    return inputs


def proposed_renames(
    offered: Mapping[str, Any], inputs: Shapes, optional: Collection[str]
) -> str | None:
    """The flag with which all inputs are given, if shapes allow it."""
    renames: dict[str, str] = {}
    for name in (name for name in inputs if name not in offered):
        unused = (key for key in offered if key not in renames and key not in inputs)
        fits = [key for key in unused if can_be(offered[key], inputs[name])]
        renames |= dict.fromkeys(fits[:1], name)
    given = {*offered, *renames.values()}
    if given_inputs(inputs, given, optional).keys() - given:
        return None
    return f"Set --rename_map={{{', '.join(f'{key}: {name}' for key, name in renames.items())}}}"


def can_be(offered: Any, wanted: tuple[int, ...]) -> bool:
    """Whether what an environment gives has a wanted shape; images are rendered in any size."""
    return len(wanted) == 3 if offered is None else tuple(offered) == tuple(wanted)


def check_action_size(kind: str, taken: int, given: int) -> None:
    """Reject a policy whose actions have another size than those of an environment."""
    if taken != given:
        raise UserError(
            f"--env.type={kind} takes actions of size {taken}, but those of the policy have size "
            f"{given}. Evaluate a policy trained for this environment, or choose another --env.type"
            " or --env.task"
        )
