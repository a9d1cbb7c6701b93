"""Paths that resume from any folder."""

from dataclasses import replace
from pathlib import Path

from manyhands.config.paths.stored import relocated, with_absolute_paths
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.train import DatasetConfig, TrainConfig


def test_paths_that_exist_become_absolute_and_names_of_the_hub_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data", "more", "model"):
        (tmp_path / name).mkdir()
    dataset = DatasetConfig(root=Path("data"), mix={"more": 1.0, "me/other": 2.0})
    policy = replace(SmolVLAConfig(), vlm_model_name="model", pretrained_path=Path("me/base"))
    stored = with_absolute_paths(TrainConfig(dataset=dataset, policy=policy))
    assert stored.dataset.root == tmp_path / "data"
    assert stored.dataset.mix == {str(tmp_path / "more"): 1.0, "me/other": 2.0}
    assert isinstance(stored.policy, SmolVLAConfig)
    assert stored.policy.vlm_model_name == str(tmp_path / "model")
    assert stored.policy.pretrained_path == Path("me/base")


def test_a_moved_run_finds_what_was_moved_with_it(tmp_path):
    new = tmp_path / "new" / "runs" / "a"
    for folder in (new, tmp_path / "new" / "data"):
        folder.mkdir(parents=True)
    stored = {
        "output_dir": "/old/runs/a",
        "dataset": {"root": "/old/data", "mix": {"/old/data": 1.0, "/old/lost": 2.0}},
    }
    found = relocated(stored, new)
    moved = str(tmp_path / "new" / "data")
    assert found["dataset"] == {"root": moved, "mix": {moved: 1.0, "/old/lost": 2.0}}


def test_paths_that_exist_are_not_looked_for(tmp_path):
    (tmp_path / "data").mkdir()
    stored = {"output_dir": "/old/runs/a", "dataset": {"root": str(tmp_path / "data")}}
    assert relocated(stored, tmp_path / "runs" / "a") == stored
