"""Flags of trackers: LeRobot's for wandb, few for the others."""

import pytest

from manyhands.config.files.config_files import read_config_file, to_json
from manyhands.config.files.lerobot_train_config import to_lerobot
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.trackers import WandbConfig, enabled_trackers
from manyhands.errors import ConfigError

BASE = ["--dataset.root=data", "--policy.type=act"]


def test_no_tracker_is_used_unless_asked():
    assert enabled_trackers(read_train_config(BASE)) == []


def test_each_is_enabled_by_a_flag_of_its_own_and_wandb_can_be_disabled():
    flags = [f"--{name}.enable=true" for name in ("trackio", "tensorboard", "wandb")]
    config = read_train_config([*BASE, *flags])
    assert enabled_trackers(config) == ["wandb", "tensorboard", "trackio"]
    config = read_train_config([*BASE, *flags, "--wandb.mode=disabled"])
    assert enabled_trackers(config) == ["tensorboard", "trackio"]


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--wandb.mode=dryrun", "--wandb.mode=dryrun is not one of online, offline, disabled"),
        ("--wandb.project=", "--wandb.project is empty"),
        ("--trackio.project=", "--trackio.project is empty"),
    ],
)
def test_what_no_tracker_knows_is_rejected(flag, told):
    with pytest.raises(ConfigError, match=told):
        read_train_config([*BASE, flag])


def test_lerobot_reads_the_same_settings_from_a_checkpoint(tmp_path):
    flags = ["--wandb.enable=true", "--wandb.project=arm", "--wandb.run_id=abc"]
    config = read_train_config([*BASE, *flags])
    written = to_lerobot(config, tmp_path)["wandb"]
    assert written == vars(WandbConfig(enable=True, project="arm", run_id="abc"))
    file = tmp_path / "config.json"
    file.write_text(to_json(config))
    assert read_config_file(str(file))["wandb"]["run_id"] == "abc"
