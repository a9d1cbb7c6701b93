"""`manyhands train` under every launcher."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BIN = Path(sys.executable).parent
LAUNCHERS = {
    "accelerate": (str(BIN / "accelerate"), "launch", "--cpu", "--num_processes=2"),
    "torchrun": (str(BIN / "torchrun"), "--nproc-per-node=2"),
}


@pytest.mark.process
@pytest.mark.launchers
def test_all_launchers_give_the_same_losses_and_weights(command, tmp_path, metrics, weights):
    flags = ("--steps=6", "--batch_size=4", "--log_freq=1")
    for name, launcher in LAUNCHERS.items():
        printed = command.train(tmp_path / name, *flags, launcher=launcher)
        assert "Number of processes: 2" in printed
    printed = command.train(tmp_path / "own", *flags, "--launch.num_processes=2")
    assert "Distributed environment: MULTI_CPU" in printed
    assert "Effective batch: 4 per process x 2 processes x 1 accumulation = 8" in printed
    own = metrics(tmp_path / "own")
    assert list(own) == [1, 2, 3, 4, 5, 6]
    for name in LAUNCHERS:
        others = metrics(tmp_path / name)
        assert [row["loss"] for row in others.values()] == [row["loss"] for row in own.values()]
        for key, value in weights(tmp_path / name).items():
            assert torch.equal(value, weights(tmp_path / "own")[key]), key


@pytest.mark.exact
@pytest.mark.process
def test_the_number_of_processes_does_not_change_the_result(command, tmp_path, metrics):
    flags = ("--steps=5", "--log_freq=1", "--policy.dropout=0", "--audit")
    command.train(tmp_path / "one", *flags, "--batch_size=6")
    command.train(tmp_path / "two", *flags, "--batch_size=3", "--launch.num_processes=2")
    command.train(
        tmp_path / "parts",
        *flags,
        "--batch_size=1",
        "--launch.num_processes=2",
        "--accelerator.gradient_accumulation.steps=3",
    )
    one = metrics(tmp_path / "one")
    for name in ("two", "parts"):
        rows = metrics(tmp_path / name)
        for step, row in one.items():
            assert rows[step]["loss"] == pytest.approx(row["loss"], rel=1e-5)
            assert rows[step]["grad_norm"] == pytest.approx(row["grad_norm"], rel=1e-4)
        assert global_batches(tmp_path / name) == global_batches(tmp_path / "one")


def global_batches(run_dir: Path) -> list[list[int]]:
    files = sorted((run_dir / "audit").iterdir())
    ranks = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    return [sum((row["indices"] for row in rows), []) for rows in zip(*ranks, strict=True)]


@pytest.mark.launchers
@pytest.mark.process
def test_only_the_main_rank_speaks(command, tmp_path):
    printed = command.train(tmp_path / "run", "--steps=2", "--launch.num_processes=2")
    assert printed.count("Number of processes") == 1
    assert printed.count("step 2/2") == 1


@pytest.mark.process
def test_a_mistake_found_by_all_ranks_is_told_once(command, tmp_path):
    flags = ("--launch.num_processes=2", "--dataset.episodes=[99]")
    printed = command.train(tmp_path / "run", *flags, code=2)
    assert "Traceback" not in printed
    assert printed.count("--dataset.episodes") == 1
    assert not (tmp_path / "run").exists()


def test_faults_come_together_with_the_right_names_and_no_traceback():
    argv = [str(BIN / "manyhands"), "train", "--batchsize=8", "--polcy.type=act", "--steps=many"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for words in ("--batch_size?", "--policy.type?", "--steps=many: expects an integer"):
        assert words in done.stderr


@pytest.mark.new_interpreter
def test_help_and_print_config_answer_without_torch():
    program = (
        "import sys; from manyhands.cli.main import run_guarded, train_command; "
        "code = run_guarded(train_command, sys.argv[1:]); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    for argv in (["--help"], ["--print_config", "--policy=act", "--dataset.root=x"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "batch_size" in done.stdout


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_rank_of_torchrun_trains_on_its_gpu_over_nccl(command, tmp_path, metrics):
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "-m")
    flags = ("--policy.device=cuda", "--steps=3", "--log_freq=1")
    argv = command.argv(tmp_path / "run", *flags)
    printed = command.run([*launcher, "manyhands", "train", *argv])
    assert "Distributed environment: MULTI_GPU" in printed
    assert "Number of GPUs: 1" in printed
    assert list(metrics(tmp_path / "run")) == [1, 2, 3]
