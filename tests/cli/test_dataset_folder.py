"""Datasets are told from runs."""

import shutil

import pytest

from manyhands.cli.dataset_folder import is_dataset
from manyhands.errors import UserError


def test_a_dataset_has_metadata_and_is_no_run(tiny_dataset, tmp_path):
    assert is_dataset(tiny_dataset)
    assert not is_dataset(tmp_path) and not is_dataset(tmp_path / "nowhere")
    both = shutil.copytree(tiny_dataset, tmp_path / "both")
    (both / "run.json").write_text("{}")
    with pytest.raises(UserError, match=r"has run\.json of a run and meta/info\.json of a dataset"):
        is_dataset(both)
