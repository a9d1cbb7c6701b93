"""Folders of results."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from manyhands.errors import UserError
from manyhands.evaluation.results_folder import new_folder


def test_evaluations_that_start_at_the_same_time_have_folders_of_their_own(tmp_path):
    parent = tmp_path / "outputs" / "eval"
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda _: new_folder(parent, "12-00-00_pusht_act"), range(8))]
    numbers = ["", *(f"_{number}" for number in range(2, 9))]
    assert sorted(path.name for path in made) == sorted(f"12-00-00_pusht_act{n}" for n in numbers)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file cannot be written: .*--output_dir"):
        new_folder(tmp_path / "file", "12-00-00_pusht_act")
