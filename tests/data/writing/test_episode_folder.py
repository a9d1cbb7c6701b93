"""What every folder of episodes does, however it writes them."""

import pytest

from manyhands.data.writing.dataset_folder import DatasetFolder
from manyhands.data.writing.staged_folder import StagedFolder
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.features import Feature

FEATURES = {"action": Feature("float32", (1,))}
KINDS = pytest.mark.parametrize("kind", [DatasetFolder, StagedFolder])


@KINDS
def test_a_place_that_is_taken_is_refused_even_by_a_dangling_link(kind, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name in ("", "link"):
        with pytest.raises(DatasetError, match="already exists"):
            kind(tmp_path / name, 10, FEATURES)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@KINDS
def test_a_task_keeps_its_number(kind, tmp_path):
    folder = kind(tmp_path / "dataset", 10, FEATURES)
    numbers = [folder.task_number(task) for task in ("pick", "place", "pick")]
    folder.discard()
    assert (numbers, folder.num_tasks) == ([0, 1, 0], 2)
