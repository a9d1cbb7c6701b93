"""LeRobot's own settings: nothing asked passes, anything asked is refused by name."""

import pytest

from manyhands.config.files.lerobot_unsupported import AT_DEFAULT, drop_unsupported
from manyhands.config.resolve import read_train_config
from manyhands.config.schema.command_line import read_flags
from manyhands.errors import ConfigError

BASE = ["--dataset.root=data", "--policy.type=act"]


def test_lerobot_defaults_pass():
    argv = ["--wandb.enable=false", "--eval_freq=20000", "--tolerance_s=1e-4"]
    assert read_train_config([*BASE, *argv]) == read_train_config(BASE)


@pytest.mark.parametrize("name", sorted(AT_DEFAULT))
def test_each_setting_is_refused_by_name_when_it_asks_for_something(name):
    with pytest.raises(ConfigError) as caught:
        read_train_config([*BASE, f"--{name}=something"])
    (fault,) = caught.value.faults
    assert fault.startswith(f"--{name}=something is not supported by manyhands")


def test_a_setting_with_a_counterpart_names_it():
    with pytest.raises(ConfigError, match=r"not supported by manyhands; use --step\.mode=compile"):
        read_train_config([*BASE, "--accelerator.compile.enabled=true"])


@pytest.mark.parametrize(
    "flag",
    [
        "accelerator.compile.mode",
        "dataset.video_backend",
        "eval.n_episodes",
        "eval.recording",
    ],
)
def test_details_that_would_change_nothing_are_refused_when_typed(flag):
    with pytest.raises(ConfigError, match=flag):
        read_train_config([*BASE, f"--{flag}=true"])


def test_defaults_as_lerobot_writes_them_to_a_file_pass():
    faults: list[str] = []
    tree = {
        "tolerance_s": 0.0001,
        "job": {"target": None, "timeout": "2d"},
        "eval": {"recording": False},
        "dataset": {"video_backend": "torchcodec", "streaming": False},
        "parallelism": {"cfg_parallel": 1, "context_parallel": {"ring_degree": 1}},
        "accelerator": {"fsdp": {"min_num_params": None, "ignored_modules": None}},
        "steps": 5,
    }
    assert drop_unsupported(tree, faults) == {"steps": 5}
    assert faults == []


def test_unknown_names_are_left_for_others_to_refuse():
    faults: list[str] = []
    tree = read_flags(["--jobx.target=true", "--batchsize=3"]).tree
    assert drop_unsupported(tree, faults) == tree
