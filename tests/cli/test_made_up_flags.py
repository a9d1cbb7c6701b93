"""Commands that do without a dataset."""

from pathlib import Path

import pytest

from manyhands.cli.flags import read_with_synthetic
from manyhands.config.commands.plan import PlanConfig
from manyhands.errors import ConfigError


def read(*arguments):
    return read_with_synthetic(PlanConfig, "usage", [*arguments])


def test_data_is_made_up_where_none_is_named(tiny_act, tmp_path):
    _, config = read(*tiny_act, "--dataset.image_transforms.enable=true")
    assert not config.dataset.is_named and config.dataset.image_transforms.enable
    _, config = read(*tiny_act, "--dataset.root=x")
    assert config.dataset.root == Path("x")
    file = tmp_path / "run.yaml"
    file.write_text("dataset:\n  repo_id: me/data\nbatch_size: 3\n")
    _, config = read(*tiny_act, f"--config={file}")
    assert config.dataset.repo_id == "me/data"
    _, config = read(*tiny_act, f"--config={file}", "--cameras=2")
    assert not config.dataset.is_named and config.batch_size == 3


def test_a_dataset_is_not_described_as_well(tiny_act):
    with pytest.raises(ConfigError, match="--cameras describes synthetic data"):
        read(*tiny_act, "--dataset.root=x", "--cameras=2")
