"""A check of a dataset as the user asked for it."""

from pathlib import Path

from manyhands.config.commands.doctor import CheckedDatasetConfig, DoctorConfig


def test_a_dataset_must_be_named():
    (fault,) = DoctorConfig().faults()
    assert "--dataset.root" in fault and "--dataset.repo_id" in fault


def test_every_fault_is_told():
    config = DoctorConfig(num_workers=-1, json=Path("/nowhere/at/all.json"))
    assert len(config.faults()) == 3


def test_what_can_work_has_no_faults(tmp_path):
    dataset = CheckedDatasetConfig(root=tmp_path)
    assert DoctorConfig(dataset=dataset, num_workers=0, json=tmp_path / "a.json").faults() == []
    assert DoctorConfig(dataset=CheckedDatasetConfig(repo_id="a/b")).faults() == []
