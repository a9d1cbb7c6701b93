"""A run that goes back equals one that never went where it came from."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from manyhands.checkpoint.snapshot import Position
from manyhands.config.resolve import read_train_config
from manyhands.lerobot_format.checkpoint import read_progress
from manyhands.observe.jsonl import read_rows
from manyhands.parallel.world import joined_world
from manyhands.training import periods as stop_poll
from manyhands.training.loop import train
from manyhands.training.setup import assemble as assembling
from manyhands.training.setup.assemble import assemble
from manyhands.training.start import begin, run_training

OPTIMIZER = "training_state/optimizer_state.safetensors"
STEPS = ("--steps=8", "--batch_size=4", "--log_freq=1", "--save_freq=4", "--ema.enable=true")
STEPS += ("--audit", "--dataset.check=off", "--on_nonfinite=rollback")


@pytest.fixture(scope="module")
def bad_data(plant, tmp_path_factory) -> Path:
    """The tiny dataset with a NaN in the state of one frame."""
    return plant(tmp_path_factory.mktemp("bad") / "data", "observation.state", float("nan"))


def tensors_of(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Weights, averages and all that an optimizer remembers."""
    files = {str(file.relative_to(checkpoint)): file for file in checkpoint.rglob("*.safetensors")}
    assert {"pretrained_model_ema/model.safetensors", OPTIMIZER} <= files.keys()
    return {
        f"{path} {name}": value
        for path, file in files.items()
        for name, value in load_file(file).items()
    }


@pytest.mark.parametrize("optimizer", ["adamw", "sgd --optimizer.momentum=0.9"])
def test_it_goes_on_from_the_checkpoint_with_the_next_samples(
    command, bad_data, tmp_path, optimizer
):
    flags = (*STEPS, *f"--optimizer.type={optimizer}".split())
    run_dir, other = tmp_path / "run", tmp_path / "other"
    argv = [f"--dataset.root={bad_data}", *command.argv(run_dir, *flags)[1:]]
    run_training(read_train_config(argv))
    (incident,) = read_rows(run_dir / "nonfinite.jsonl")
    assert (incident["step"], incident["position"]) == (6, 20)
    resumed = [f"--resume={run_dir}/checkpoints/000004", f"--output_dir={other}"]
    config = read_train_config(resumed)
    with joined_world(config) as world:
        run = assemble(config, other, world)
        begin(run)
        assert run.start == Position(4, 16)
        train(replace(run, start=Position(4, 24)))
    expected = tensors_of(other / "checkpoints" / "000008")
    for name, value in tensors_of(run_dir / "checkpoints" / "000008").items():
        assert torch.equal(value, expected[name]), name
    last = read_progress(run_dir / "checkpoints" / "last" / "training_state")
    assert (last.step, last.samples) == (8, 40)


def test_records_hold_every_update_once_as_it_was_made_last(command, bad_data, tmp_path):
    argv = [f"--dataset.root={bad_data}", *command.argv(tmp_path / "run", *STEPS)[1:]]
    config = read_train_config(argv)
    with joined_world(config) as world:
        run = assemble(config, tmp_path / "run", world)
        begin(run)
        train(run)
        drawn = [run.stream.rows_at(4 * number).tolist() for number in range(10)]
    rows = list(read_rows(tmp_path / "run" / "audit" / "rank-00.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert [row["indices"] for row in rows] == drawn[:4] + drawn[6:]
    rows = list(read_rows(tmp_path / "run" / "metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, 9))
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "rolled back from step 6 to the checkpoint of step 4; data continues at sample 24" in log


def test_a_run_without_a_checkpoint_goes_back_to_its_start(command, bad_data, tmp_path):
    flags = (*STEPS, "--save_freq=0")
    argv = [f"--dataset.root={bad_data}", *command.argv(tmp_path / "run", *flags)[1:]]
    run_training(read_train_config(argv))
    assert "to the checkpoint of step 0" in (tmp_path / "run" / "log.txt").read_text()
    checkpoints = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["000000", "000008", "last"]


@pytest.mark.parametrize("judge_every", [3, 4])
def test_samples_are_skipped_by_the_number_of_steps_and_never_by_the_time(
    command, bad_data, tmp_path, monkeypatch, judge_every
):
    monkeypatch.setitem(assembling.JUDGE_EVERY, "cpu", judge_every)
    flags = (*STEPS, "--log_freq=100", "--save_freq=0", "--steps=7")
    for period_s in (0.0, 1e9):
        monkeypatch.setattr(stop_poll, "PERIOD_S", period_s)
        run_dir = tmp_path / str(period_s)
        argv = [f"--dataset.root={bad_data}", *command.argv(run_dir, *flags)[1:]]
        run_training(read_train_config(argv))
        last = read_progress(run_dir / "checkpoints" / "last" / "training_state")
        # Step 6 is bad. It is judged after 6 or 7 steps, the last one of a run.
        assert last.samples == 4 * (7 + (6 if judge_every == 3 else 7))


def test_others_save_no_start(command, tmp_path):
    run_training(read_train_config(command.argv(tmp_path / "run", "--steps=1")))
    assert not (tmp_path / "run" / "checkpoints" / "000000").exists()
