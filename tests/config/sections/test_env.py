"""Environments by LeRobot's types and defaults."""

import pytest

from manyhands.cli.flags import read_config
from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.config.sections.env import (
    ENV_TYPES,
    AlohaEnvConfig,
    GymEnvConfig,
    PushtEnvConfig,
    TrayEnvConfig,
)
from manyhands.errors import ConfigError


def read(*flags):
    return read_config(EvalCommandConfig, "", ["--policy.path=outputs/pick", *flags]).env


def test_the_type_selects_the_environment():
    assert read("--env.type=pusht") == PushtEnvConfig()
    assert read("--env.type=aloha", "--env.task=AlohaTransferCube-v0") == AlohaEnvConfig(
        task="AlohaTransferCube-v0"
    )
    assert read("--env.type=tray", "--env.episode_length=12") == TrayEnvConfig(episode_length=12)
    assert ENV_TYPES.keys() == {"tray", "pusht", "aloha", "gym"}


def test_defaults_are_the_published_protocol():
    pusht, aloha = PushtEnvConfig(), AlohaEnvConfig()
    assert (pusht.task, pusht.fps, pusht.episode_length) == ("PushT-v0", 10, 300)
    assert (pusht.visualization_width, pusht.visualization_height) == (384, 384)
    assert (aloha.task, aloha.fps, aloha.episode_length) == ("AlohaInsertion-v0", 50, 400)


def test_a_mapping_is_declared_in_one_flag():
    flags = ["--env.type=gym", "--env.task=CartPole-v1", "--env.gym_kwargs={gravity: 1.6}"]
    flags.append("--env.observation_keys={observation.state: observation}")
    assert read(*flags) == GymEnvConfig(
        task="CartPole-v1",
        gym_kwargs={"gravity": 1.6},
        observation_keys={"observation.state": "observation"},
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--env.type=push"], "pusht"),
        (["--env.type=pusht", "--env.task=PushX-v0"], "--env.task=PushX-v0 is not one of PushT-v0"),
        (["--env.type=pusht", "--env.visualization_width=64"], "width=64 must be at least 96"),
        (["--env.type=aloha", "--env.task=PushT-v0"], "AlohaInsertion-v0, AlohaTransferCube-v0"),
        (["--env.type=gym"], "--env.type=gym needs --env.task"),
        (["--env.type=tray", "--env.task=any"], "--env.task"),
        (["--env.type=tray", "--env.fps=0"], "--env.fps=0 must be at least 1"),
        (["--env.type=tray", "--env.episode_length=0"], "--env.episode_length=0 must be"),
    ],
)
def test_mistakes_name_the_flag(flags, told):
    with pytest.raises(ConfigError, match=told):
        read(*flags)
