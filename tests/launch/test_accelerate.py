"""The number of processes in accelerate's own command line."""

from pathlib import Path

import pytest

from manyhands.launch.accelerate import num_processes_in, processes_asked_of_accelerate

PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize(
    "flags",
    [["--num_processes=2"], ["--num_processes", "2"], ["--num-processes=2"]],
)
def test_all_spellings_are_read(flags):
    command = [PYTHON, "/bin/accelerate", "launch", "--cpu", *flags, "train", "--num_processes=9"]
    assert num_processes_in(command) == 2


def test_a_config_file_is_read(tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text("num_processes: 3\n")
    assert num_processes_in(["accelerate-launch", "--config_file", str(file), "train"]) == 3


def test_other_parents_ask_for_nothing():
    assert num_processes_in(["bash", "-c", "accelerate launch --num_processes=2"]) is None
    assert num_processes_in(["accelerate", "config", "--num_processes=2"]) is None
    assert processes_asked_of_accelerate() is None
