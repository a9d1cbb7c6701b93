"""Every type of environment can be built from its config."""

import numpy as np
import pytest

from manyhands.config.sections.env import (
    ENV_TYPES,
    AlohaEnvConfig,
    GymEnvConfig,
    PushtEnvConfig,
    TrayEnvConfig,
)
from manyhands.sim.build import SIMULATORS, build_environment, modules_of

STATE = "observation.state"
CASES = {
    "tray": (TrayEnvConfig(), "manyhands", 4, 3, "Put the block into the tray."),
    "pusht": (
        PushtEnvConfig(),
        "gym_pusht",
        2,
        2,
        "Push the T-shaped block onto the T-shaped target.",
    ),
    "aloha": (AlohaEnvConfig(), "gym_aloha", 14, 14, "Insert the peg into the socket."),
    "gym": (
        GymEnvConfig(task="toys/Point-v0", package="toy_worlds", instruction="Go."),
        "gymnasium",
        4,
        3,
        "Go.",
    ),
}


@pytest.mark.parametrize("kind", ENV_TYPES)
def test_a_config_leads_to_its_environment(kind):
    config, package, size, action_size, instruction = CASES[kind]
    pytest.importorskip(package, reason="pip install 'manyhands[sim]'")
    environment = build_environment(config, {STATE: (size,)})
    environment.reset(1000)
    assert environment.instruction == instruction
    assert environment.observe()[STATE].shape == (size,)
    assert environment.action_size == action_size
    environment.step(np.zeros(action_size, np.float32))


def test_every_type_has_modules_that_its_processes_share():
    assert SIMULATORS.keys() == ENV_TYPES.keys()
    assert "manyhands.sim.pusht" in modules_of(PushtEnvConfig())
    # A package of the user may do anything when it is imported.
    assert "toy_worlds" not in modules_of(CASES["gym"][0])
