"""Which directories a run can use."""

import pytest

from manyhands.atomic import atomic_file
from manyhands.config.resolve import read_train_config
from manyhands.config.runs.run_dir import LOCK
from manyhands.errors import UserError
from manyhands.training.output_dir import reject_run_dir, run_dir_fault


@pytest.fixture
def config(command, tmp_path):
    return read_train_config(command.argv(tmp_path / "run"))


def test_a_directory_that_cannot_be_looked_for_is_a_mistake_not_a_crash(config, tmp_path):
    assert "File name too long" in str(run_dir_fault(tmp_path / ("a" * 300), config))


def test_a_directory_may_have_folders_but_no_files(config, tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert run_dir_fault(tmp_path / "run", config) is None
    (tmp_path / "run" / "notes.txt").touch()
    assert "already contains other files" in str(run_dir_fault(tmp_path / "run", config))
    (tmp_path / "run" / "run.json").touch()
    with pytest.raises(UserError, match="already contains a run without a checkpoint"):
        reject_run_dir(tmp_path / "run", config)
    (tmp_path / "run" / "checkpoints" / "000002").mkdir()
    assert "Resume it: --resume=" in str(run_dir_fault(tmp_path / "run", config))


def test_a_run_that_is_killed_before_it_has_written_anything_may_start_again(config, tmp_path):
    run_dir = tmp_path / "run"
    (run_dir / "audit").mkdir(parents=True)
    (run_dir / LOCK).touch()
    with atomic_file(run_dir / "run.json") as scratch:
        scratch.touch()
        assert run_dir_fault(run_dir, config) is None
    assert "already contains a run" in str(run_dir_fault(run_dir, config))
