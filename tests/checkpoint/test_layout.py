"""Where checkpoints are."""

from pathlib import Path

import pytest

from manyhands.checkpoint.layout import checkpoint_dir, find_checkpoint
from manyhands.errors import CheckpointError


def test_names_sort_by_step():
    assert checkpoint_dir(Path("r"), 20, 100).name == "000020"
    assert checkpoint_dir(Path("r"), 20, 20_000_000).name == "00000020"


def test_a_run_a_checkpoint_and_its_parts_all_stand_for_the_checkpoint(tmp_path: Path):
    folder = tmp_path / "checkpoints" / "000020"
    for part in ("pretrained_model", "training_state"):
        (folder / part).mkdir(parents=True)
    (tmp_path / "checkpoints" / "last").symlink_to("000020")
    for path in (tmp_path, folder, folder / "pretrained_model", tmp_path / "checkpoints" / "last"):
        assert find_checkpoint(path) == folder


def test_a_folder_without_one_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        find_checkpoint(tmp_path)
