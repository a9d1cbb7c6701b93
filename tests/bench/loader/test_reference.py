"""Another loader measured by another Python."""

import os
import sys
from pathlib import Path

import pytest

from manyhands.errors import UserError
from manyhands_bench.loader.reference import ReferenceRequest, measure_reference

REQUEST = ReferenceRequest(
    repo_id="local/dataset",
    root="somewhere",
    episodes=[0, 2],
    delta_timestamps={"action": [0.0, 0.1]},
    batch_size=4,
    num_workers=0,
    seconds=0.2,
    warm_up_s=0.0,
)

LEROBOT = """
import torch
class LeRobotDataset(torch.utils.data.Dataset):
    def __init__(self, repo_id, root, episodes, delta_timestamps):
        assert (repo_id, root, episodes) == ("local/dataset", "somewhere", [0, 2])
        self.length = len(delta_timestamps["action"])
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return {"action": torch.zeros(self.length)}
"""


@pytest.fixture
def python(tmp_path, monkeypatch) -> Path:
    """A Python that finds a package by LeRobot's name."""
    package = tmp_path / "lerobot" / "datasets"
    package.mkdir(parents=True)
    (package / "lerobot_dataset.py").write_text(LEROBOT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Path(sys.executable)


def test_the_rate_of_the_other_loader_comes_back(python):
    assert measure_reference(python, REQUEST) > 0


def test_a_python_without_lerobot_is_told():
    with pytest.raises(UserError, match=r"LeRobot's loader failed: .*lerobot"):
        measure_reference(Path(sys.executable), REQUEST)


def test_a_file_that_is_no_python_is_told(tmp_path):
    (tmp_path / "python").write_text("nothing")
    with pytest.raises(UserError, match="cannot run --against"):
        measure_reference(tmp_path / "python", REQUEST)
