"""A dataset examined as asked."""

import shutil

import pytest

from manyhands.config.commands.doctor import CheckedDatasetConfig, DoctorConfig
from manyhands.config.train import CacheFolderConfig
from manyhands.doctor.dataset import examine
from manyhands.errors import DatasetError


def config_of(root, **options):
    episodes = options.pop("episodes", None)
    dataset = CheckedDatasetConfig(root=root, episodes=episodes)
    return DoctorConfig(dataset=dataset, num_workers=0, **options)


def test_all_is_looked_at_unless_a_quick_look_is_asked_for(tiny_dataset, tmp_path):
    root = shutil.copytree(tiny_dataset, tmp_path / "dataset")
    quick = examine(config_of(root, quick=True))
    assert quick.thoroughness == "quick" and not quick.cached
    full = examine(config_of(root, episodes=[1, 2]))
    assert full.thoroughness == "full" and full.num_episodes == 2
    assert examine(config_of(root, episodes=[1, 2])).cached


def test_progress_is_told(tiny_dataset, tmp_path):
    told = []
    root = shutil.copytree(tiny_dataset, tmp_path / "dataset")
    examine(config_of(root), lambda done, total: told.append((done, total)))
    assert told[-1] == (39, 39)


def test_a_folder_without_metadata_is_a_finding_and_no_folder_a_mistake(tmp_path):
    assert examine(config_of(tmp_path)).state_of("metadata") == "bad"
    with pytest.raises(DatasetError, match="is not a LeRobot dataset"):
        examine(config_of(tmp_path / "nowhere"))


def test_results_are_kept_in_the_folder_that_training_uses(tiny_dataset, tmp_path):
    dataset = CheckedDatasetConfig(root=tiny_dataset)
    config = DoctorConfig(dataset=dataset, cache=CacheFolderConfig(folder=tmp_path))
    assert [examine(config).cached for _ in range(2)] == [False, True]
    assert list((tmp_path / "checks").iterdir())
