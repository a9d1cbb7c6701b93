"""Configurations as flags that can be copied, and a command that does the same once more."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from page_runs import run_facts

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.resolve import read_train_config, resolve_config
from manyhands.config.schema.decoding import encode
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.image_transforms import ImageTransformsConfig, TransformConfig
from manyhands.config.sections.optim import AdamWConfig, DiffuserSchedulerConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.report.runs.configuration import (
    FlagTable,
    compared_tables,
    configuration_tables,
    flat,
    read_config,
    reproduction,
)

DATASET = DatasetConfig(root=Path("data/it's here"))
AUGMENTED = DatasetConfig(
    root=Path("data/cups"),
    image_transforms=ImageTransformsConfig(
        enable=True,
        tfs={"dark": TransformConfig(type="ColorJitter", kwargs={"brightness": [0.1, 0.2]})},
    ),
)
CONFIGS = [
    TrainConfig(dataset=DATASET, policy=ActConfig()),
    TrainConfig(dataset=AUGMENTED, policy=DiffusionConfig(crop_shape=(80, 80)), epochs=2.5),
    TrainConfig(
        dataset=DATASET,
        policy=ActConfig(optimizer_lr=3e-5, pretrained_backbone_weights=None),
        optimizer=AdamWConfig(lr=2e-3, weight_decay=1e-4),
        scheduler=DiffuserSchedulerConfig(num_warmup_steps=50),
        env=TrayEnvConfig(),
        env_eval_freq=10,
        rename_map={"observation.images.top": "observation.image"},
        job_name="<b>",
    ),
]


def run_of(config: TrainConfig, **facts: Any) -> dict[str, Any]:
    return {"config": json.loads(json.dumps(encode(resolve_config(config))))} | facts


def flags_in(table: FlagTable) -> list[str]:
    return [cell.text for row in table.rows for cell in row if cell.is_flag]


@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "augmented", "everything"])
def test_the_command_reproduces_the_configuration(config: TrainConfig) -> None:
    program, command, *flags = shlex.split(reproduction(run_of(config)).replace("\\\n", " "))
    assert (program, command) == ("manyhands", "train")
    again = flat(encode(read_train_config(flags)))
    own = flat(encode(resolve_config(config)))
    differing = {name for name in own | again if own.get(name) != again.get(name)}
    # Steps follow from epochs only once the dataset is known.
    assert differing <= {"steps"}


@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "augmented", "everything"])
def test_rows_are_flags_that_can_be_copied(config: TrainConfig) -> None:
    changed, everything = configuration_tables(run_of(config))
    for flag in flags_in(changed):
        (word,) = shlex.split(flag)
        assert word.startswith("--") and "=" in word
    assert set(flags_in(changed)) <= set(flags_in(everything)) and everything.is_folded
    flags = [word for flag in flags_in(changed) for word in shlex.split(flag)]
    assert read_train_config(flags) is not None


def test_only_what_differs_from_the_defaults_is_a_difference() -> None:
    changed, _ = configuration_tables(run_of(TrainConfig(dataset=DATASET, policy=ActConfig())))
    assert flags_in(changed) == ["'--dataset.root=data/it'\"'\"'s here'", "--policy.type=act"]


def test_a_preset_of_the_policy_is_a_default() -> None:
    config = TrainConfig(dataset=DATASET, policy=ActConfig(optimizer_lr=1e-4))
    changed, _ = configuration_tables(run_of(config))
    assert [flag for flag in flags_in(changed) if "lr" in flag] == ["--policy.optimizer_lr=0.0001"]


def test_defaults_stand_beside_the_flags() -> None:
    changed, _ = configuration_tables(run_facts())
    beside = {row[0].text: row[1].text for row in changed.rows}
    assert beside["--seed=7"] == "1000" and beside["--steps=400"] == "100000"


def test_a_launchers_processes_are_part_of_the_command() -> None:
    config = TrainConfig(dataset=DATASET, policy=ActConfig())
    ranks = [{"rank": rank, "host": "a"} for rank in range(2)]
    assert "--launch.num_processes=2" in reproduction(run_of(config, ranks=ranks))
    apart = [{"rank": rank, "host": f"node{rank}"} for rank in range(2)]
    assert "num_processes" not in reproduction(run_of(config, ranks=apart))


def test_the_command_names_neither_the_old_folder_nor_a_temporary_file() -> None:
    text = reproduction(run_facts())
    assert "outputs/pick" not in text and "/tmp" not in text
    assert text.startswith("manyhands train \\\n    --dataset.root=data/pusht \\\n")


def test_runs_are_compared_flag_by_flag() -> None:
    one, other = (
        run_of(TrainConfig(dataset=DATASET, policy=ActConfig(), seed=seed)) for seed in (1, 2)
    )
    (table,) = compared_tables([("a", one), ("b", other)])
    assert list(table.columns) == ["a", "b"]
    assert [[cell.text for cell in row] for row in table.rows] == [["--seed=1", "--seed=2"]]
    (same,) = compared_tables([("a", one), ("b", one)])
    assert (same.rows, same.note) == ([], "All flags are the same.")


@pytest.mark.parametrize(
    "config", [None, [], {}, {"policy": 3, "x": {"y": None}}, {"policy": {"type": []}}]
)
def test_a_config_of_another_version_is_shown_as_it_is(config: Any) -> None:
    run = {"config": config}
    tables = configuration_tables(run)
    assert bool(tables) == isinstance(config, dict)
    assert reproduction(run).startswith("manyhands train") == isinstance(config, dict)
    assert compared_tables([("a", run), ("b", run_facts())])[0].rows


@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "augmented", "everything"])
def test_the_config_of_a_run_is_read_again(config: TrainConfig) -> None:
    run = run_of(config)
    assert read_config(run) == resolve_config(config)
    run["config"] |= {"flag_of_tomorrow": {"x": 1}}
    assert read_config(run) == resolve_config(config)
    run["config"] |= {"steps": "many"}
    assert read_config(run) is None and read_config({}) is None
