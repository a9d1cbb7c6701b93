"""What accelerate's own command line asks for."""

from pathlib import Path

import pytest
import yaml

from manyhands.config.launch.launcher import read_launcher
from manyhands.errors import EnvironmentFault
from manyhands.launch.accelerate import accelerate_command, read_command, variables_of

PYTHON = "/usr/bin/python3"
CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def num_processes_in(words: list[str]) -> int | None:
    command = read_command(words)
    return command.count("num_processes") if command else None


@pytest.mark.parametrize(
    "flags",
    [["--num_processes=2"], ["--num_processes", "2"], ["--num-processes=2"]],
)
def test_all_spellings_are_read(flags):
    command = [PYTHON, "/bin/accelerate", "launch", "--cpu", *flags, "train", "--num_processes=9"]
    assert num_processes_in(command) == 2


@pytest.mark.parametrize(
    "program",
    [
        ["/bin/accelerate", "launch"],
        ["/bin/accelerate-launch"],
        ["-m", "accelerate.commands.launch"],
        ["-m", "accelerate.commands.accelerate_cli", "launch"],
    ],
)
def test_all_names_of_the_program_are_known(program):
    assert num_processes_in([PYTHON, *program, "--num_processes=2", "train"]) == 2


def test_a_config_file_is_read(tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text("num_processes: 3\n")
    assert num_processes_in(["accelerate-launch", "--config_file", str(file), "train"]) == 3


def test_the_default_file_counts_unless_the_cpu_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "accelerate").mkdir()
    (tmp_path / "accelerate" / "default_config.yaml").write_text("num_processes: 5\n")
    assert num_processes_in(["accelerate", "launch", "train"]) == 5
    assert num_processes_in(["accelerate", "launch", "--cpu", "train"]) is None


def test_other_parents_ask_for_nothing():
    assert num_processes_in(["bash", "-c", "accelerate launch --num_processes=2"]) is None
    assert num_processes_in(["accelerate", "config", "--num_processes=2"]) is None
    assert accelerate_command() is None


def test_accumulation_is_passed_on():
    command = read_command(["accelerate", "launch", "--gradient_accumulation_steps=4", "train"])
    assert command is not None
    assert variables_of(command, has_ranks=True) == {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4"}


@pytest.mark.parametrize(
    ("flags", "file", "expected"),
    [
        ([], "", None),
        ([], "mixed_precision: 'no'", "no"),
        ([], "mixed_precision: no", "no"),
        ([], "mixed_precision: bf16", None),
        (["--mixed_precision=no"], "", "no"),
        (["--mixed-precision", "no"], "mixed_precision: bf16", "no"),
        (["--mixed_precision=bf16"], "mixed_precision: 'no'", None),
    ],
)
def test_the_word_no_is_told_from_no_word(tmp_path, flags, file, expected):
    (tmp_path / "c.yaml").write_text(f"num_processes: 1\n{file}\n")
    words = ["accelerate", "launch", f"--config_file={tmp_path / 'c.yaml'}", *flags, "train"]
    command = read_command(words)
    assert command is not None
    # accelerate sets its own variable either way.
    environ = {"ACCELERATE_MIXED_PRECISION": "no"} | variables_of(command, has_ranks=True)
    assert read_launcher(environ).mixed_precision == expected


@pytest.mark.parametrize(
    ("flags", "has_ranks", "words"),
    [
        (["--gradient_clipping=1.0"], True, "--optimizer.grad_clip_norm"),
        (["--zero_stage=3"], True, "--parallelism.dp_shard=-1"),
        (["--cpu", f"--config_file={CONFIGS / 'fsdp.yaml'}"], False, "Remove --cpu"),
        (["--cpu", "--num_machines=2"], False, "its other machines"),
    ],
)
def test_what_accelerate_drops_is_refused_by_name(flags, has_ranks, words):
    command = read_command(["accelerate", "launch", *flags, "train"])
    assert command is not None
    with pytest.raises(EnvironmentFault, match=words):
        variables_of(command, has_ranks)


def test_the_files_we_ship_say_what_they_should():
    files = {file.name: yaml.safe_load(file.read_text()) for file in CONFIGS.glob("*.yaml")}
    assert files["accelerate_config_single_node.yaml"]["num_processes"] == 2
    several = files["accelerate_config_multi_node.yaml"]
    assert (several["num_machines"], several["num_processes"]) == (2, 8)
    sharded = files["fsdp.yaml"]
    assert (sharded["distributed_type"], sharded["num_processes"]) == ("FSDP", 4)
    assert sharded["fsdp_config"]["fsdp_state_dict_type"] == "FULL_STATE_DICT"
    assert files["my_config_file.yaml"]["mixed_precision"] == "fp16"
    assert files.keys() >= {"base_config.yaml", "debug_config.yaml"}
