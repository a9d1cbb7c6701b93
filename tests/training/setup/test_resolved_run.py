"""What a run is before it is built."""

import json

import pytest

from manyhands.checkpoint.snapshot import Position
from manyhands.config.resolve import read_train_config
from manyhands.config.runs.run_dir import find_checkpoint
from manyhands.errors import CheckpointError
from manyhands.training.setup.resolved_run import resolve_run
from manyhands.training.start import run_training


def test_a_fresh_run_starts_at_zero_with_the_steps_of_its_budget(command, tmp_path):
    config = read_train_config(command.argv(tmp_path / "run", "--epochs=2", "--batch_size=4"))
    run = resolve_run(config, 20, rank=1, num_ranks=2)
    assert (run.start, run.resume) == (Position(), None)
    assert (run.config.num_steps, run.split.samples_per_step, run.split.rank) == (5, 8, 1)


def test_a_resumed_run_starts_at_its_checkpoint_and_knows_what_changed(command, tmp_path):
    run_training(read_train_config(command.argv(tmp_path / "run", "--steps=2", "--batch_size=4")))
    config = read_train_config([f"--resume={tmp_path / 'run'}", "--epochs=1", "--seed=3"])
    run = resolve_run(config, 20, rank=0, num_ranks=1)
    assert run.start == Position(2, 8)
    # The samples that are drawn already count.
    assert run.config.num_steps == 5
    assert run.resume is not None
    assert run.resume.folder == find_checkpoint(tmp_path / "run")
    assert run.resume.changes == {"epochs": (None, 1.0), "seed": (1000, 3), "steps": (2, 5)}
    assert run.resume.pending_metrics is None
    state = run.resume.folder / "training_state" / "training_step.json"
    state.write_text(json.dumps({"step": "x"}))
    with pytest.raises(CheckpointError, match="is damaged"):
        resolve_run(config, 20, rank=0, num_ranks=1)
