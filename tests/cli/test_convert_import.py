"""`manyhands convert --from` on the command line."""

import json
import sys

import h5py
import numpy as np
import pytest
import yaml

from manyhands.cli.convert import convert_command
from manyhands.cli.main import run_guarded
from manyhands.data.dataset import open_dataset


def run(*flags: object) -> int:
    return run_guarded(convert_command, [str(flag) for flag in flags])


@pytest.fixture
def demo(tmp_path):
    file = tmp_path / "demo.hdf5"
    with h5py.File(file, "w") as opened:
        for number, length in enumerate((4, 3)):
            group = opened.create_group(f"data/demo_{number}")
            group["actions"] = np.random.default_rng(number).normal(size=(length, 2))
            group["obs/robot0_eef_pos"] = np.ones((length, 3))
            group["obs/joints"] = np.ones((length, 6))
    return file


def test_the_mapping_is_printed_and_used(demo, tmp_path, capsys):
    flags = (f"--output={tmp_path / 'new'}", "--fps=20", "--task=lift it")
    assert run(f"--from={demo}", *flags, f"--json={tmp_path / 'a.json'}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        f"{demo}: format robomimic, 2 episodes",
        "  observation.state <- obs/robot0_eef_pos  (float32 3)",
        "  action            <- actions  (float32 2)",
        "  fps               =  20",
        "  task              =  'lift it'",
        "  not imported: obs/joints",
    ]
    assert lines[6].startswith(f"{tmp_path / 'new'}: 2 episodes, 7 frames, ")
    assert json.loads((tmp_path / "a.json").read_text())["num_frames"] == 7
    assert open_dataset(root=tmp_path / "new")[0]["task"] == "lift it"


def test_a_proposal_is_edited_and_read_back(demo, tmp_path, capsys):
    file = tmp_path / "map.yaml"
    assert run(f"--from={demo}", f"--propose={file}") == 0
    assert f"--mapping={file}" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
    document = yaml.safe_load(file.read_text())
    assert document["features"]["action"] == "actions"
    document["features"]["observation.state"] = "obs/joints[0:4] + obs/robot0_eef_pos"
    file.write_text(yaml.safe_dump(document | {"fps": 10, "task": "lift"}))
    flags = (f"--from={demo}", f"--mapping={file}", f"--output={tmp_path / 'new'}", "--fps=30")
    assert run(*flags) == 0
    dataset = open_dataset(root=tmp_path / "new")
    assert dataset.features["observation.state"].shape == (7,)
    assert (dataset.info.fps, dataset[0]["task"]) == (30, "lift")


def test_an_edited_mapping_is_not_overwritten(demo, tmp_path, capsys):
    (tmp_path / "map.yaml").write_text("edited")
    assert run(f"--from={demo}", f"--propose={tmp_path / 'map.yaml'}") == 2
    assert "map.yaml already exists" in capsys.readouterr().err
    assert (tmp_path / "map.yaml").read_text() == "edited"


def test_an_interruption_is_told_to_be_no_loss(demo, tmp_path, capsys, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("manyhands.data.writing.writer.DatasetWriter.save_episode", interrupt)
    flags = (f"--from={demo}", f"--output={tmp_path / 'new'}", "--fps=20", "--task=lift")
    assert run(*flags) == 130
    assert "The same command continues" in capsys.readouterr().err
    monkeypatch.undo()
    assert run(*flags) == 0


def test_features_are_taken_from_flags(demo, tmp_path):
    features = "--features={observation.state: obs/joints, action: actions}"
    flags = (f"--output={tmp_path / 'new'}", "--fps=20", "--task=lift")
    assert run(f"--from={demo}", features, *flags) == 0
    assert open_dataset(root=tmp_path / "new").features["observation.state"].shape == (6,)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "does not hold its frame rate. Set --fps=N"),
        ([], "does not describe its task. Set --task='TEXT'"),
        (
            ["--features={action: act}", "--fps=1", "--task=a"],
            "its columns are: actions (2 float64), obs/joints (6 float64)",
        ),
        (["--format=aloha"], "no action"),
        (["--from=nowhere"], "nowhere does not exist"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(demo, tmp_path, capsys, flags, message):
    assert run(f"--from={demo}", f"--output={tmp_path / 'new'}", *flags) == 2
    assert message in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [demo]


def test_a_missing_package_gives_the_install_command(demo, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert run(f"--from={demo}", f"--output={tmp_path / 'new'}") == 2
    told = "needs the package h5py. Install: pip install 'manyhands[import]'"
    assert told in capsys.readouterr().err
