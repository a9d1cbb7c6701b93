"""Keys that guides use in configuration files set the flags they mean, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from manyhands.cli.main import run_guarded, train_command
from manyhands.config.files.config_files import config_file_notes
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

GUIDE = {"data": {"batch_size": 4}, "learning_rate": 1.25e-6, "warmup_steps": 300}


def read(folder: Path, tree: dict[str, Any], *flags: str, policy: str = "act") -> TrainConfig:
    file = folder / "guide.yaml"
    file.write_text(yaml.safe_dump({"policy": {"type": policy}, "dataset": {"root": "x"}} | tree))
    return read_train_config(["--config", str(file), *flags])


def test_a_guides_keys_set_batch_rate_and_warm_up(tmp_path: Path) -> None:
    config = read(tmp_path, GUIDE)
    assert config.batch_size == 4
    assert config.optimizer is not None and config.optimizer.lr == 1.25e-6
    assert config.scheduler is not None and config.scheduler.type == "constant_with_warmup"
    assert config.scheduler.num_warmup_steps == 300


def test_a_policy_with_a_schedule_keeps_it(tmp_path: Path) -> None:
    config = read(tmp_path, GUIDE, policy="diffusion")
    assert config.scheduler is not None and config.scheduler.type == "diffuser"
    assert config.scheduler.num_warmup_steps == 300


def test_flags_win_over_the_keys(tmp_path: Path) -> None:
    flags = ("--batch_size=2", "--optimizer.lr=1e-3", "--scheduler.num_warmup_steps=7")
    config = read(tmp_path, GUIDE, *flags)
    assert config.batch_size == 2
    assert config.optimizer is not None and config.optimizer.lr == 1e-3
    assert config.scheduler is not None and config.scheduler.num_warmup_steps == 7


@pytest.mark.parametrize(
    "both",
    [
        {"data": {"batch_size": 4}, "batch_size": 4},
        {"learning_rate": 1e-4, "optimizer": {"lr": 1e-4}},
        {"warmup_steps": 5, "scheduler": {"type": "diffuser", "num_warmup_steps": 5}},
    ],
)
def test_both_names_of_a_setting_are_an_error(tmp_path: Path, both: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="are the same setting"):
        read(tmp_path, both)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (
            {"data": {"batch_size": 4, "shuffle": True}},
            r"line 3: unknown key data\.shuffle",
        ),
        ({"data": 7}, "guide.yaml, line 1: unknown key data; use dataset.root"),
        ({"learning_rate": "fast"}, r"--optimizer\.lr"),
        ({"warmup_steps": "long"}, r"--scheduler\.num_warmup_steps"),
    ],
)
def test_other_keys_and_values_are_named(tmp_path: Path, tree: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(tmp_path, tree)


@pytest.mark.parametrize(
    "flag", ["--learning_rate=1e-4", "--warmup_steps=5", "--data.batch_size=2"]
)
def test_on_the_command_line_the_flag_is_proposed(tmp_path: Path, flag: str) -> None:
    with pytest.raises(ConfigError, match="unknown flag"):
        read(tmp_path, {}, flag)


def test_a_note_says_which_flag_each_key_sets(tmp_path: Path, capsys: Any) -> None:
    read(tmp_path, GUIDE)
    file = str(tmp_path / "guide.yaml")
    notes = config_file_notes(file)
    assert notes == [
        f"{file}: data.batch_size sets --batch_size",
        f"{file}: learning_rate sets --optimizer.lr",
        f"{file}: warmup_steps sets --scheduler.num_warmup_steps",
    ]
    assert run_guarded(train_command, ["--config", file]) == 2  # There is no dataset x.
    assert "\n".join(notes) in capsys.readouterr().err
