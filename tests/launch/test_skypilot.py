"""The task is what SkyPilot accepts, and bash reads every value as it is."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.config.launch.skypilot import NAME, SkyPilotConfig, name_like
from manyhands.config.resolve import read_train_config
from manyhands.errors import ConfigError
from manyhands.launch.job import Job
from manyhands.launch.skypilot import skypilot_task

SCHEMA = json.loads(Path(__file__).with_name("skypilot.schema.json").read_text())
TRAIN = ("--dataset.root=/data/pick", "--policy.type=act", "--output_dir=/data/runs/act")
NODE = {"SKYPILOT_NODE_IPS": "10.0.0.7\n10.0.0.8", "SKYPILOT_NODE_RANK": "1"}


def job(**values: Any) -> Job:
    known = {
        "program": ["manyhands"],
        "flags": TRAIN,
        "run_dir": Path("/data/runs/act"),
        "folder": Path("/home/me"),
        "name": "act_multi_gpu",
        "written_by": ["manyhands", "launch", "skypilot"],
    }
    return Job(**known | values)


def task(config: SkyPilotConfig, run: Job | None = None) -> dict[str, Any]:
    """A task, checked against the schema."""
    read = yaml.safe_load(skypilot_task(config, run or job()))
    jsonschema.validate(read, SCHEMA)
    return read


def words(folder: Path, line: str) -> list[str]:
    """The words that bash gives the program of a task."""
    program = folder / "manyhands"
    program.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\n")
    program.chmod(0o755)
    environ = {**NODE, "PATH": f"{folder}{os.pathsep}{os.defpath}"}
    done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def test_every_wish_is_a_field():
    config = SkyPilotConfig(
        nodes=2,
        gpus_per_node=8,
        accelerator="H100",
        infra="aws/us-east-1",
        use_spot=True,
        image="docker:team/manyhands:1",
        cpus=32,
        mem_gb=256,
        disk_gb=512,
        mounts={"/data": "s3://robot-data"},
        workdir=Path(),
        setup=["pip install manyhands", "ulimit -n 9999"],
        env={"NCCL_DEBUG": "INFO"},
    )
    read = task(config)
    assert read["name"] == "act-multi-gpu" and read["num_nodes"] == 2 and read["workdir"] == "."
    assert read["resources"] == {
        "infra": "aws/us-east-1",
        "accelerators": "H100:8",
        "cpus": "32+",
        "memory": "256+",
        "disk_size": 512,
        "image_id": "docker:team/manyhands:1",
        "use_spot": True,
        "job_recovery": {"max_restarts_on_errors": 3},
    }
    assert read["setup"] == "pip install manyhands\nulimit -n 9999"
    assert read["file_mounts"] == {"/data": "s3://robot-data"}
    assert read["envs"] == {"NCCL_DEBUG": "INFO"}


def test_every_node_runs_a_launcher_that_finds_the_first(tmp_path):
    config = SkyPilotConfig(nodes=2, gpus_per_node=4, accelerator="H100")
    flags = words(tmp_path, task(config)["run"])[1:]
    assert flags[: len(TRAIN) + 1] == [*TRAIN, "--resume=auto"]
    read = read_train_config([flag for flag in flags if flag != "--resume=auto"])
    assert read.launch.main_address == "10.0.0.7" and read.launch.machine_rank == 1
    assert read.launch.num_processes == 4 and read.launch.num_machines == 2


def test_one_node_of_cpus_needs_neither():
    read = task(SkyPilotConfig(gpus_per_node=0, processes_per_node=2))
    assert "accelerators" not in read["resources"]
    line = ["exec", "manyhands", "train", *TRAIN, "--resume=auto", "--launch.num_processes=2"]
    assert shlex.split(read["run"]) == line


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
hostile = st.sampled_from(["$(touch a)", "`touch a`", "'", '"', "\n", "; touch a", "#", "${HOME}"])
values = st.lists(texts | hostile, max_size=4).map("".join)


@settings(max_examples=25)
@given(value=values)
def test_any_value_reaches_the_program_as_it_is(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("node")
    config = SkyPilotConfig(nodes=2, accelerator="H100", env={"A": f"x{value}"})
    read = task(config, job(flags=[*TRAIN, f"--job_name={value}", value], written_by=[value]))
    assert words(folder, read["run"])[1:6] == [*TRAIN, f"--job_name={value}", value]
    assert read["envs"]["A"] == f"x{value}"
    assert [path.name for path in folder.iterdir()] == ["manyhands"]


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b"])
def test_what_no_program_can_be_given_is_refused_with_its_flag(value):
    config = SkyPilotConfig(accelerator="H100", setup=[value])
    with pytest.raises(ConfigError, match="--setup"):
        skypilot_task(config, job())
    with pytest.raises(ConfigError, match="training flags"):
        skypilot_task(SkyPilotConfig(accelerator="H100"), job(flags=[f"--job_name={value}"]))


@given(text=st.text())
def test_any_name_of_a_run_gives_a_name_of_a_task(text):
    assert NAME.fullmatch(name_like(text))
