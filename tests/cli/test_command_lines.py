"""Command lines that guides to training on several GPUs give, in their CPU form.

Each is what a guide says, but for the name of the program, a tiny dataset and policy, two updates
in place of thousands, two processes at most, and --policy.device=cpu where a guide has GPUs.
Uploading curves (--wandb.enable=true) has tests of its own, in training/test_tracking.py.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.run
from accelerate.commands.launch import launch_command, launch_command_parser

from manyhands.config.resolve import read_train_config
from manyhands.launch.workers import LOOPBACK, free_port, listen, run_workers
from manyhands.training.start import run_training

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
PROGRAM = str(BIN / "manyhands-train")
ACCELERATE = (str(BIN / "accelerate"), "launch")
DATA = "--dataset.repo_id=me/my_dataset"
SHORT = ("--steps=2", "--num_workers=0")

COMMANDS: dict[str, tuple[str, ...]] = {
    "S0.4 without a config": (
        *ACCELERATE, "--multi_gpu", "--num_processes=2", PROGRAM, DATA, "--policy.type=act",
        "--policy.repo_id=me/my_trained_policy", "--job_name=act_multi_gpu",
    ),
    "S0.8 with a saved config": (
        *ACCELERATE, PROGRAM, DATA, "--policy.type=act",
        "--policy.repo_id=me/my_trained_policy", "--job_name=act_multi_gpu",
    ),
    "S0.14 and S0.15 with scaled rate and steps": (
        *ACCELERATE, "--multi_gpu", "--num_processes=2", PROGRAM, "--optimizer.lr=2e-4", DATA,
        "--policy=act", "--batch_size=8",
    ),
    "S1.2 without dashes, from a policy": (
        *ACCELERATE, PROGRAM, "policy.pretrained_path=PRETRAINED", "dataset.repo_id=me/my_dataset",
        "batch_size=16",
    ),
    "S1.5 in bf16": (
        *ACCELERATE, "--num_processes=2", "--mixed_precision=bf16", "--multi_gpu", PROGRAM,
        "policy.pretrained_path=PRETRAINED", "dataset.repo_id=me/my_dataset", "batch_size=4",
    ),
    "S2.23 sharded": (
        *ACCELERATE, "--config_file", str(CONFIGS / "fsdp.yaml"), "--num_processes=2", PROGRAM,
        DATA, "--policy.type=act",
    ),
    "S3.6 with both configs": (
        *ACCELERATE, "--config_file", str(CONFIGS / "accelerate_config_single_node.yaml"),
        PROGRAM, "--config", str(CONFIGS / "debug_config.yaml"), DATA,
    ),
    "S4.6 torchrun": (
        str(BIN / "torchrun"), "--nproc_per_node=2", "--nnodes=1", PROGRAM, DATA, "--policy=act",
    ),
    "S4.11 chosen GPUs": (
        *ACCELERATE, "--config_file", str(CONFIGS / "my_config_file.yaml"),
        "--mixed_precision=no", PROGRAM, DATA, "--policy=act",
    ),
}  # fmt: skip
EVERY_TIME = ("S4.6 torchrun",)
SAVED = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n"
SAVED += "mixed_precision: 'no'\nnum_machines: 1\nuse_cpu: false\n"
EXPECTED = {
    "S0.14 and S0.15 with scaled rate and steps": ("lr 0.0002", "Effective batch: 8 per process x"),
    "S1.2 without dashes, from a policy": ("Number of processes: 1", "Effective batch: 16 per"),
    "S1.5 in bf16": ("Precision: bfloat16",),
    "S2.23 sharded": ("FSDP2, weights sharded over 2 processes", "Precision: bfloat16"),
    "S3.6 with both configs": ("Precision: bfloat16", "Effective batch: 2 per process"),
}


@pytest.fixture(scope="module")
def homes(tmp_path_factory, tiny_dataset, tiny_act) -> dict[str, str]:
    """Folders with what the commands name: a dataset, a saved config and a policy."""
    folder = tmp_path_factory.mktemp("homes")
    (folder / "lerobot" / "me").mkdir(parents=True)
    (folder / "lerobot" / "me" / "my_dataset").symlink_to(tiny_dataset)
    (folder / "hf" / "accelerate").mkdir(parents=True)
    (folder / "hf" / "accelerate" / "default_config.yaml").write_text(SAVED)
    flags = [f"--dataset.root={tiny_dataset}", *tiny_act, f"--output_dir={folder / 'run'}"]
    run_training(read_train_config([*flags, "--steps=1"]))
    return {
        "HF_LEROBOT_HOME": str(folder / "lerobot"),
        "HF_HOME": str(folder / "hf"),
        "PRETRAINED": str(folder / "run" / "checkpoints" / "last" / "pretrained_model"),
        "CUDA_VISIBLE_DEVICES": "6,7",
    }


@pytest.fixture
def start():
    """Starts processes that go on meanwhile; none is left when a test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(words, changes=None):
        environ = {key: value for key, value in os.environ.items() if key != "RANK"}
        environ |= {"OMP_NUM_THREADS": "1"} | (changes or {})
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def names_of_commands() -> Iterator[Any]:
    """All of them, of which only a few are tried every time."""
    for name in COMMANDS:
        marks = () if name in EVERY_TIME else (pytest.mark.launchers,)
        yield pytest.param(name, marks=marks)


@pytest.mark.process
@pytest.mark.parametrize("name", [*names_of_commands()])
def test_a_guides_command_line_runs(command, homes, tiny_sizes, tmp_path, name):
    words = [word.replace("PRETRAINED", homes["PRETRAINED"]) for word in COMMANDS[name]]
    words += tiny_sizes if {"--policy=act", "--policy.type=act"} & {*words} else ()
    words += [*SHORT, "--policy.device=cpu", f"--output_dir={tmp_path / 'run'}"]
    changes = dict(homes)
    if not name.startswith("S0.8"):
        # A saved config is found there, which only accelerate looks for.
        del changes["HF_HOME"]
        changes |= {"HF_HOME": str(tmp_path)} if words[0] == ACCELERATE[0] else {}
    printed = command.run(words, changes=changes)
    for told in EXPECTED.get(name, ()) or ("Number of processes: 2",):
        assert told in printed, printed
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ending"] == "finished"
    assert (tmp_path / "run/checkpoints/last/pretrained_model/model.safetensors").exists()


@pytest.mark.process
def test_ranks_train_with_what_accelerate_makes_of_a_sharded_command_line(
    tiny_dataset, tiny_sizes, tmp_path, monkeypatch, capfd
):
    """All that accelerate does but for the start of ranks, which torch's launcher does for it."""
    words = [*COMMANDS["S2.23 sharded"][2:], *tiny_sizes, *SHORT, "--policy.device=cpu"]
    words[words.index(DATA)] = f"--dataset.root={tiny_dataset}"
    outcomes = []

    def start_ranks(args):
        command = [args.training_script, *args.training_script_args]
        outcomes.append(run_workers(int(args.nproc_per_node), command))

    monkeypatch.setattr(torch.distributed.run, "run", start_ranks)
    parser = launch_command_parser()
    launch_command(parser.parse_args([*words, f"--output_dir={tmp_path / 'run'}"]))
    printed = "".join(capfd.readouterr())
    assert [outcome.code for outcome in outcomes] == [0], printed
    for told in EXPECTED["S2.23 sharded"]:
        assert told in printed, printed
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ending"] == "finished"
    assert (tmp_path / "run/checkpoints/last/pretrained_model/model.safetensors").exists()


@pytest.mark.process
@pytest.mark.launchers
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "manyhands"])
def test_two_machines_train_together(command, start, tmp_path, launcher):
    """Both on this host, started like two hosts."""
    port = free_port()
    file = CONFIGS / "accelerate_config_multi_node.yaml"
    starts = {
        "torchrun": [
            str(BIN / "torchrun"), "--nproc-per-node=1", "--nnodes=2", "--rdzv-backend=c10d",
            f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=1", PROGRAM,
        ],
        "accelerate": [
            *ACCELERATE, "--config_file", str(file), "--num_processes=2", "--machine_rank=MACHINE",
            "--main_process_ip=127.0.0.1", f"--main_process_port={port}", PROGRAM,
        ],
        "manyhands": [
            PROGRAM, "--launch.num_processes=1", "--launch.num_machines=2",
            "--launch.machine_rank=MACHINE", "--launch.main_address=localhost",
            f"--launch.main_port={port}",
        ],
    }  # fmt: skip
    words = [*starts[launcher], *command.argv(tmp_path / "run", "--steps=2")]
    machines = [
        start([word.replace("MACHINE", str(number)) for word in words]) for number in (0, 1)
    ]
    printed = [machine.communicate(timeout=200)[0] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], "\n".join(printed)
    assert "Number of processes: 2" in "".join(printed)


@pytest.mark.process
@pytest.mark.launchers
def test_tasks_of_srun_train_together(command, start, tmp_path):
    """As two tasks of a step, by SLURM's variables alone."""
    step = {
        "SLURM_JOB_ID": str(tmp_path.stat().st_ino % 10_000),
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_NODEID": "0",
    }
    words = [PROGRAM, *command.argv(tmp_path / "run", "--steps=2")]
    tasks = [
        start(words, step | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)})
        for rank in range(2)
    ]
    printed = [task.communicate(timeout=200)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], "\n".join(printed)
    assert "Number of processes: 2" in printed[0]
    assert printed[1] == ""


@pytest.mark.process
def test_a_port_that_is_taken_is_named_with_exit_code_2(command, tmp_path):
    with listen(LOOPBACK, None, "nobody") as taken:
        port = str(taken.getsockname()[1])
        words = [PROGRAM, *command.argv(tmp_path / "run"), "--launch.num_processes=2"]
        printed = command.run(words, code=2, changes={"MASTER_PORT": port})
        assert f"port {port}, set by MASTER_PORT" in printed
        place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": LOOPBACK}
        words = [PROGRAM, *command.argv(tmp_path / "run")]
        printed = command.run(words, code=2, changes=place | {"MASTER_PORT": port})
        assert f"another program uses the rendezvous port {port}" in printed
        assert "Traceback" not in printed


@pytest.mark.parametrize("name", ["base_config.yaml", "debug_config.yaml"])
def test_the_training_configs_we_ship_are_complete_and_take_another_dataset(name):
    config = read_train_config(["--config", str(CONFIGS / name)])
    assert config.policy is not None and config.dataset.repo_id == "lerobot/pusht"
    config = read_train_config(["--config", str(CONFIGS / name), "--dataset.root=x"])
    assert config.dataset.root == Path("x")


@pytest.mark.process
@pytest.mark.launchers
def test_the_example_script_trains(command, tiny_dataset, tiny_act, tmp_path):
    script = str(ROOT / "examples" / "train_multi_gpu.sh")
    flags = [flag for flag in tiny_act if not flag.startswith("--policy.type")]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    settings = {"DATASET": str(tiny_dataset), "OUTPUT": str(tmp_path / "run"), "PATH": path}
    settings |= {"STEPS": "1", "GLOBAL_BATCH": "4"}
    printed = command.run(["bash", script, *flags, "--launch.num_processes=2"], changes=settings)
    assert "= 4 samples per step" in printed
    assert "name the folder" in command.run(["bash", script], code=1)
