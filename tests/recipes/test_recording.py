"""The recorders of recipes write datasets, and explain what they cannot do."""

import runpy
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from manyhands.config.sections.env import AlohaEnvConfig
from manyhands.data.dataset import open_dataset
from manyhands.sim.tray.task import CAMERA

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture
def record(command):
    """Runs a recorder; returns what it printed."""

    def run(script: str, *flags: str, code: int = 0) -> str:
        return command.run([sys.executable, str(RECIPES / script), *flags], code)

    return run


@pytest.mark.process
def test_the_built_in_task_is_recorded_with_its_camera(record, tmp_path):
    root = tmp_path / "data"
    record("record_tray.py", f"--root={root}", "--episodes=2", "--size=32", "--seed=5")
    dataset = open_dataset(root=root)
    assert dataset.num_episodes == 2
    assert dataset[0][CAMERA].shape == (3, 32, 32)
    assert all(dataset[int(end) - 1]["next.success"] for _, end in dataset.episode_bounds)
    told = record("record_tray.py", f"--root={root}", code=2)
    assert told == f"manyhands: {root} already exists. Choose a new folder\n"


@pytest.mark.process
@pytest.mark.parametrize("script", ["record_tray.py", "record_aloha.py"])
def test_numbers_that_make_no_sense_are_refused(record, tmp_path, script):
    told = record(script, f"--root={tmp_path}/data", "--episodes=0", code=2)
    assert "argument --episodes: 0 must be at least 1" in told and "Traceback" not in told


@pytest.fixture
def aloha(monkeypatch):
    """What the recorder of ALOHA consists of."""
    monkeypatch.syspath_prepend(str(RECIPES))
    return runpy.run_path(str(RECIPES / "record_aloha.py"))


def test_aloha_is_recorded_with_the_inputs_of_its_environment(aloha):
    features = aloha["features"](48, 64)
    assert features["observation.images.top"]["shape"] == (48, 64, 3)
    assert features["observation.state"]["shape"] == features["action"]["shape"] == (14,)
    assert len(set(features["action"]["names"])) == 14
    asked = aloha["flags"]().parse_args(["--root=data"])
    assert (asked.task, asked.episodes) == ("AlohaTransferCube-v0", 50)
    # Evaluation starts at seed 1000.
    assert asked.seed == 1_000_000


def test_seeds_of_aloha_are_those_whose_expert_succeeds(aloha):
    pytest.importorskip("gym_aloha", reason="pip install 'manyhands[sim]'")
    config = AlohaEnvConfig(task="AlohaTransferCube-v0")
    (seed,) = islice(aloha["successful_seeds"](config, 1_000_000), 1)
    rows = aloha["expert_rows"](config, {"observation.state": (14,)}, seed)
    assert len(rows) == config.episode_length
    assert any(row["next.success"][0] for row in rows)
    # Nobody succeeds before the cube is lifted: such episodes are not recorded.
    short = replace(config, episode_length=20)
    rows = aloha["expert_rows"](short, {"observation.state": (14,)}, seed)
    assert not any(row["next.success"][0] for row in rows)
