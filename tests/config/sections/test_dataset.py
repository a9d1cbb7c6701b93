"""Datasets by name."""

from pathlib import Path

import pytest

from manyhands.config.sections.dataset import NamedDatasetConfig


@pytest.mark.parametrize(
    "dataset",
    [NamedDatasetConfig(root=Path("here")), NamedDatasetConfig(repo_id="a/b", revision="v3.0")],
)
def test_a_folder_or_a_hub_name_is_enough(dataset):
    assert [*dataset.naming_faults()] == []


def test_nothing_named_and_a_revision_of_a_folder_are_told():
    (unnamed,) = NamedDatasetConfig().naming_faults()
    assert "--dataset.root" in unnamed and "--dataset.repo_id" in unnamed
    (useless,) = NamedDatasetConfig(root=Path("here"), revision="v3.0").naming_faults()
    assert useless.startswith("--dataset.revision")
