"""One program, however many processes run it."""

import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import manyhands
from manyhands.errors import CheckpointError, UserError

NUM_SAMPLES, NUM_STEPS = 23, 9
DATA = TensorDataset(torch.arange(6.0).view(6, 1))
TWO = "--launch.num_processes=2"
SHARDED = "--parallelism.dp_shard=-1"
LAUNCHERS = {
    "torchrun": [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
    ],
    "accelerate": [
        *(sys.executable, "-m", "accelerate.commands.launch"),
        *("--cpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no"),
    ],
}


def assert_same_run(one, other) -> None:
    """The same samples in each global batch; numbers agree to float tolerance."""
    assert [step["rows"] for step in one.steps] == [step["rows"] for step in other.steps]
    for name in ("loss", "norm", "lr"):
        values = [[step[name] for step in run.steps] for run in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-5)
    for name, weight in one.weights.items():
        torch.testing.assert_close(weight, other.weights[name], rtol=1e-5, atol=1e-6)
    assert one.evaluated == other.evaluated


def assert_same_bits(whole, parts, at: int) -> None:
    """A run that stopped after a step and continued is the one that did not stop."""
    assert parts.steps == whole.steps[at:]
    assert all(torch.equal(weight, whole.weights[name]) for name, weight in parts.weights.items())
    assert parts.evaluated == whole.evaluated


@pytest.mark.process
def test_every_epoch_has_every_sample_once_and_its_last_batch_is_shorter(alone):
    epochs = [[step["rows"] for step in alone.steps if step["epoch"] == each] for each in range(3)]
    assert [[len(rows) for rows in epoch] for epoch in epochs] == [[8, 8, 7]] * 3
    assert [sorted(sum(epoch, [])) for epoch in epochs] == [[*range(NUM_SAMPLES)]] * 3
    assert epochs[0] != epochs[1]
    assert [step["lr"] for step in alone.steps[::3]] == [1e-2, 5e-3, 2.5e-3]


@pytest.mark.process
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((TWO,), id="ddp-2"),
        pytest.param(("--launch.num_processes=3",), id="ddp-3"),
        pytest.param((TWO, SHARDED), id="fsdp-2"),
        pytest.param(("--parallelism.gpus_per_process=2",), id="dp-2"),
        pytest.param((TWO, "--accelerator.gradient_accumulation.steps=5"), id="micro-batches"),
    ],
)
def test_the_strategy_changes_neither_samples_nor_results(toy, alone, tmp_path, flags):
    many = toy(tmp_path / "run", *flags)
    assert_same_run(many, alone)
    assert [row for row, _ in many.evaluated] == [*range(NUM_SAMPLES)]


def forget(folder: Path, after: int) -> None:
    """Remove the checkpoints after a step, as if the run had been killed there."""
    for checkpoint in (folder / "checkpoints").glob("[0-9]*"):
        if int(checkpoint.name) > after:
            shutil.rmtree(checkpoint)


@pytest.mark.process
@pytest.mark.parametrize("flags", [(TWO,), (TWO, SHARDED)], ids=["ddp", "fsdp"])
def test_a_run_continues_bit_by_bit_within_and_between_epochs(toy, tmp_path, flags):
    whole = toy(tmp_path / "whole", *flags, "--save_freq=1")
    for at in (6, 2):
        run = shutil.copytree(whole.folder, tmp_path / f"after-{at}", symlinks=True)
        forget(run, after=at)
        assert_same_bits(whole, toy(run, *flags), at)


@pytest.mark.process
def test_a_stop_request_saves_and_the_same_command_continues(toy, alone, tmp_path):
    printed = toy(tmp_path / "run", TWO, SHARDED, stop_at=2, code=75)
    (at,) = re.findall(r"stopped on request after step (\d); run the same command", printed)
    assert 2 <= int(at) < NUM_STEPS
    rest = toy(tmp_path / "run", "--launch.num_processes=3")
    others = alone.steps[int(at) :]
    assert [step["rows"] for step in rest.steps] == [step["rows"] for step in others]
    for name, weight in rest.weights.items():
        torch.testing.assert_close(weight, alone.weights[name], rtol=1e-5, atol=1e-6)


@pytest.mark.launchers
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_starts_the_same_run(toy, alone, tmp_path, launcher):
    many = toy(tmp_path / "run", launcher=LAUNCHERS[launcher])
    assert len(many.ranks) == 2
    assert_same_run(many, alone)


@pytest.mark.launchers
def test_tasks_of_srun_start_the_same_run(toy, alone, tmp_path):
    """As two tasks of a step, by SLURM's variables alone."""
    step = {
        "SLURM_JOB_ID": str(tmp_path.stat().st_ino % 10_000),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_JOB_NODELIST": "localhost",
    }
    with ThreadPoolExecutor() as tasks:
        places = [{"SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in "01"]
        runs = tasks.map(lambda place: toy(tmp_path / "run", changes=step | place), places)
        many, _ = runs
    assert len(many.ranks) == 2
    assert_same_run(many, alone)


@pytest.mark.process
def test_the_program_of_the_guide_runs_and_continues(command, tmp_path):
    page = (Path(__file__).parents[2] / "docs/engine.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```python\n(import sys.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(text)
    words = [sys.executable, str(tmp_path / "train.py"), "--device=cpu"]
    words += [f"--output_dir={tmp_path / 'run'}", TWO]
    printed = command.run(words)
    assert printed.count("of 1000 samples") == 3
    assert "resuming from step 48" in command.run(words)


def build() -> tuple[nn.Linear, torch.optim.SGD]:
    model = nn.Linear(1, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def squares(model, values):
    return model(values[0]).square()


def train(folder: Path, num_epochs: int, *flags: str) -> tuple[dict, int]:
    """The weights and the number of steps after some epochs of two steps."""
    with manyhands.Engine(["--device=cpu", f"--output_dir={folder}", *flags]) as engine:
        model, optimizer = build()
        engine.prepare(model, optimizer, squares)
        for _, batches in engine.epochs(DATA, num_epochs, 3):
            for batch in batches:
                engine.step(batch)
        engine.save()
        return {name: value.clone() for name, value in model.state_dict().items()}, engine.position


def test_a_damaged_checkpoint_is_skipped(tmp_path, capsys):
    whole, _ = train(tmp_path / "run", 3, "--save_freq=2", "--keep_last=2")
    names = sorted(each.name for each in (tmp_path / "run/checkpoints").iterdir())
    assert names == ["000004", "000006", "last"]
    weights = tmp_path / "run/checkpoints/000006/pretrained_model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    again, position = train(tmp_path / "run", 3)
    assert (position.step, position.samples) == (6, 18)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    printed = capsys.readouterr().out
    assert "skipped a damaged checkpoint" in printed and "resuming from step 4" in printed


def test_another_model_is_rejected(tmp_path):
    train(tmp_path / "run", 1)
    with (
        pytest.raises(CheckpointError, match="does not fit the model of this run"),
        manyhands.Engine(["--device=cpu", f"--output_dir={tmp_path / 'run'}"]) as engine,
    ):
        model = nn.Linear(1, 2)
        engine.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), squares)


def test_weights_and_draws_follow_from_the_seed(tmp_path):
    runs = [train(tmp_path / str(seed), 1, f"--seed={seed % 2}")[0] for seed in range(3)]
    assert torch.equal(runs[0]["weight"], runs[2]["weight"])
    assert not torch.equal(runs[0]["weight"], runs[1]["weight"])


@pytest.mark.parametrize(
    ("use", "fault"),
    [
        (lambda engine: engine.step(None), r"Call prepare\(\) first"),
        (lambda engine: engine.save(), "Set --output_dir"),
    ],
)
def test_calls_in_the_wrong_order_are_explained(use, fault):
    with manyhands.Engine(["--device=cpu"]) as engine, pytest.raises(UserError, match=fault):
        use(engine)


def test_an_engine_needs_its_block():
    with pytest.raises(UserError, match="with Engine"):
        _ = manyhands.Engine().world


def test_help_lists_the_flags(capsys):
    with pytest.raises(SystemExit) as left:
        manyhands.Engine(["--help"])
    assert left.value.code == 0 and "--parallelism.dp_shard" in capsys.readouterr().out


def test_a_run_without_checkpoints_leaves_no_folder(tmp_path):
    with manyhands.Engine(["--device=cpu", f"--output_dir={tmp_path / 'run'}"]) as engine:
        engine.prepare(*build(), squares)
    assert not (tmp_path / "run").exists()
    shutil.rmtree(tmp_path)
