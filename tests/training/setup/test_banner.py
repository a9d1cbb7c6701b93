"""The proof at start."""

import json

from torch import nn

from manyhands.config.resolve import read_train_config
from manyhands.data.loading.stream import BatchSplit
from manyhands.training.setup.banner import batch_norm_notes
from manyhands.training.start import run_training


def test_the_banner_proves_what_runs(command, tmp_path, capsys):
    flags = ("--steps=2", "--batch_size=3", "--accelerator.gradient_accumulation.steps=2")
    run_training(read_train_config(command.argv(tmp_path / "run", *flags)))
    printed = capsys.readouterr().out
    for line in (
        "Distributed environment: NO",
        "Number of processes: 1",
        "Number of GPUs: 0",
        "Effective batch: 3 per process x 1 processes x 2 accumulation = 6 samples per step",
        "Dataset: 4 episodes, 39 frames, 10 fps",
        "Steps: 2 steps = 12 samples = 0.31 epochs; 6.5 steps per epoch",
        "Precision: float32",
        "rank 0 -> ",
    ):
        assert line in printed
    assert "Parameters: " in printed


def test_facts_hold_what_the_banner_says(command, tmp_path):
    run_training(read_train_config(command.argv(tmp_path / "run", "--steps=1", "--batch_size=3")))
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["batch"] == {
        "per_process": 3,
        "processes": 1,
        "accumulation": 1,
        "effective": 3,
        "steps_per_epoch": 13.0,
        "is_even": True,
        "lr_factor": 1.0,
    }
    assert facts["budget"] == {"asked": "steps", "steps": 1, "samples": 3, "epochs": 3 / 39}
    assert facts["loading"] == {"num_workers": 0, "frame_cache": None}
    assert facts["policy"]["num_parameters"] == facts["policy"]["num_trainable"] > 1000
    assert facts["config"]["policy"]["type"] == "act"


def test_batch_norm_under_accumulation_is_told():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    (note,) = batch_norm_notes(network, BatchSplit(0, 2, 32, num_micro_batches=4))
    assert "each micro-batch of 8 samples" in note
    assert "one batch of 32" in note
    assert batch_norm_notes(network, BatchSplit(0, 2, 32)) == []
    assert batch_norm_notes(nn.GroupNorm(2, 4), BatchSplit(0, 2, 32, num_micro_batches=4)) == []
