"""`manyhands cache` as users run it."""

import json
from pathlib import Path

import numpy as np
import pytest

from manyhands.cli.cache import cache_command
from manyhands.cli.main import run_guarded
from manyhands.data.writing.copy_episodes import copy_episodes
from manyhands.data.writing.copy_sources import EpisodeChoice
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter

CAMERA = "observation.images.top"


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    root = tmp_path_factory.mktemp("filmed") / "dataset"
    axes = ["height", "width", "channels"]
    with DatasetWriter.create(
        root, 10, {CAMERA: {"dtype": "video", "shape": [16, 16, 3], "names": axes}}
    ) as writer:
        for episode in range(2):
            for step in range(6):
                picture = np.full((16, 16, 3), 20 * step + episode, np.uint8)
                writer.add_frame({CAMERA: picture, "task": "look"})
            writer.save_episode()
    return root


def test_frames_are_built_once_shown_and_cleared(filmed, tmp_path, capsys):
    folder, file = tmp_path / "cache", tmp_path / "result.json"
    build = ["build", f"--dataset.root={filmed}", f"--cache.folder={folder}", f"--json={file}"]
    assert cache_command(build) == 0
    assert json.loads(file.read_text())["num_decoded"] == 12
    assert cache_command(build) == 0
    assert json.loads(file.read_text())["num_decoded"] == 0
    capsys.readouterr()
    assert cache_command(["show", f"--cache.folder={folder}", f"--json={file}"]) == 0
    assert "12 of 12" in capsys.readouterr().out
    (store,) = json.loads(file.read_text())["stores"]
    assert store["description"]["camera"] == CAMERA
    assert cache_command(["clear", f"--cache.folder={folder}", "--dataset.root=elsewhere"]) == 0
    assert cache_command(["clear", f"--cache.folder={folder}", f"--dataset.root={filmed}"]) == 0
    capsys.readouterr()
    cache_command(["show", f"--cache.folder={folder}"])
    assert capsys.readouterr().out.startswith("0 B in ")


def test_only_chosen_episodes_are_decoded(filmed, tmp_path):
    file = tmp_path / "result.json"
    flags = [f"--dataset.root={filmed}", "--dataset.episodes=[1]", f"--json={file}"]
    assert cache_command(["build", *flags, f"--cache.folder={tmp_path / 'cache'}"]) == 0
    assert json.loads(file.read_text())["num_decoded"] == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["biuld"], "cache biuld is unknown"),
        (["build"], "no dataset"),
        (["build", "--dataset.root=nowhere"], "nowhere is not a LeRobot dataset"),
        (["build", "--dataset.rot=x"], "--dataset.root"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told, capsys):
    assert run_guarded(cache_command, arguments) == 2
    assert told in capsys.readouterr().err


def test_unknown_cameras_are_named(filmed, capsys):
    assert (
        run_guarded(cache_command, ["build", f"--dataset.root={filmed}", "--cameras=[front]"]) == 2
    )
    assert f"--cameras: front not found; choose from {CAMERA}" in capsys.readouterr().err


def test_help_is_an_answer(capsys):
    for arguments in (["--help"], ["build", "--help"], ["show", "--help"]):
        assert run_guarded(cache_command, arguments) == 0
        assert "manyhands cache build" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is not available")
def test_frames_are_not_decoded_for_a_folder_that_cannot_be_written(tiny_dataset, capsys):
    flags = ["build", f"--dataset.root={tiny_dataset}", "--cache.folder=/proc/frames"]
    assert run_guarded(cache_command, flags) == 2
    assert "--cache.folder=/proc/frames: /proc accepts no new folders" in capsys.readouterr().err


def test_missing_files_are_told_together_and_can_be_skipped(filmed, tmp_path, capsys):
    apart = tmp_path / "apart"
    copy_episodes([EpisodeChoice(filmed)], apart, limits=SizeLimits(1000, 1, 1))
    min(apart.glob("videos/**/*.mp4")).unlink()
    flags = [f"--dataset.root={apart}", f"--cache.folder={tmp_path / 'cache'}"]
    assert run_guarded(cache_command, ["build", *flags]) == 2
    told = capsys.readouterr().err
    assert "1 fault, in 1 of 2 episodes" in told and "--dataset.on_bad=skip" in told
    file = tmp_path / "result.json"
    assert cache_command(["build", *flags, "--dataset.on_bad=skip", f"--json={file}"]) == 0
    assert "skipped 1 of 2 episodes (50.0%)" in capsys.readouterr().out
    assert json.loads(file.read_text())["num_decoded"] == 6
