"""Builds the environment of a config; simulators are imported where they are used."""

from collections.abc import Collection

from manyhands.config.sections.env import (
    AlohaEnvConfig,
    EnvConfig,
    GymEnvConfig,
    PushtEnvConfig,
    TrayEnvConfig,
)
from manyhands.sim.environment import Environment, Shapes

SIMULATORS = {
    "aloha": ("manyhands.sim.aloha", "gymnasium"),
    "gym": ("manyhands.sim.gym", "gymnasium"),
    "pusht": ("manyhands.sim.pusht", "gym_pusht.envs.pusht"),
    "tray": ("manyhands.sim.tray.environment",),
}
"""Modules of each type of environment that are safe to import: at most they are missing."""


def modules_of(config: EnvConfig) -> list[str]:
    """Modules that the processes of an environment can share."""
    return [*SIMULATORS[config.type]]


def build_environment(
    config: EnvConfig, inputs: Shapes, optional: Collection[str] = ()
) -> Environment:
    """The environment of a config, for a policy with these inputs, of which some are optional."""
    match config:
        case TrayEnvConfig():
            from manyhands.sim.tray.environment import TrayEnvironment

            return TrayEnvironment(inputs, optional)
        case PushtEnvConfig():
            from manyhands.sim.pusht import PushtEnvironment

            return PushtEnvironment(config, inputs, optional)
        case AlohaEnvConfig():
            from manyhands.sim.aloha import AlohaEnvironment

            return AlohaEnvironment(config, inputs, optional)
        case GymEnvConfig():
            from manyhands.sim.gym import GymEnvironment

            return GymEnvironment(config, inputs, optional)
    raise AssertionError(f"no environment for {config}")
