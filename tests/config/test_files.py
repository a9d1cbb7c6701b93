"""Files that cannot be read are named."""

from pathlib import Path

import pytest

from manyhands.config.files import find_config_file, read_config_file, read_policy_file, to_json
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: [", "\x00"])
def test_a_file_that_holds_no_named_values_is_named(tmp_path: Path, content: str):
    file = tmp_path / "run.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"run\.yaml"):
        read_config_file(str(file))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="nowhere"):
        find_config_file(str(tmp_path / "nowhere"))


def test_a_folder_without_a_policy_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=str(tmp_path)):
        read_policy_file(str(tmp_path))


def test_a_policy_that_neither_the_disk_nor_the_hub_has_is_named():
    with pytest.raises(ConfigError, match="me/none"):
        read_policy_file("me/none", "a-pretrained_revision")


def test_numbers_survive_a_json_file(tmp_path: Path):
    file = tmp_path / "c.json"
    file.write_text(to_json(TrainConfig(steps=3)))
    assert read_config_file(str(file))["steps"] == 3
