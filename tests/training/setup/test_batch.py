"""Samples of an update, updates of a run, and learning rates, at any number of processes."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.checkpoint.snapshot import Position
from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import ScalingConfig, TrainConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import EnvironmentFault
from manyhands.training.setup.batch import lr_factor, resolve_steps, split_batch
from manyhands.training.start import run_training

PLAIN = TrainConfig(policy=ActConfig(), batch_size=8, steps=5)


@given(
    num_ranks=st.integers(1, 12),
    beyond=st.integers(0, 100),
    batch_size=st.none() | st.integers(2, 20),
)
def test_a_global_batch_is_cut_without_repeating_or_skipping_a_sample(
    num_ranks, beyond, batch_size
):
    config = replace(PLAIN, global_batch_size=num_ranks + beyond, batch_size=batch_size)
    shares = [split_batch(config, rank, num_ranks) for rank in range(num_ranks)]
    samples = range(num_ranks + beyond)
    assert [each for share in shares for each in samples[share.own]] == list(samples)
    assert all(share.samples_per_rank >= 1 for share in shares)
    (num_micro_batches,) = {share.num_micro_batches for share in shares}
    most = batch_size or len(samples)
    assert shares[0].micro_batch_size <= most
    assert (
        num_micro_batches == 1
        or math.ceil(shares[0].most_per_rank / (num_micro_batches - 1)) > most
    )


def test_without_a_global_batch_every_rank_has_its_own_batches(monkeypatch):
    assert split_batch(PLAIN, 1, 3).own == slice(8, 16)
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "2")
    share = split_batch(PLAIN, 1, 3)
    assert (share.own, share.num_micro_batches, share.samples_per_step) == (slice(16, 32), 2, 48)


def test_a_batch_that_leaves_a_process_without_a_sample_is_refused():
    with pytest.raises(EnvironmentFault, match=r"--global_batch_size=2 .* 3 processes"):
        split_batch(replace(PLAIN, global_batch_size=2), 0, 3)


def test_a_rank_that_would_run_out_of_samples_before_the_others_is_refused():
    single = replace(PLAIN, batch_size=1, global_batch_size=7)
    with pytest.raises(EnvironmentFault, match=r"--batch_size=1 .* multiple of 3 processes"):
        split_batch(single, 0, 3)
    assert split_batch(replace(single, global_batch_size=6), 0, 3).num_micro_batches == 2


def test_a_launchers_accumulation_beside_a_global_batch_is_refused(monkeypatch):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    with pytest.raises(EnvironmentFault, match=r"4 micro-batches .* --global_batch_size=64"):
        split_batch(replace(PLAIN, global_batch_size=64), 0, 2)


@pytest.mark.parametrize(
    ("budget", "num_samples", "samples_per_step", "num_steps"),
    [
        ({"epochs": 1.0}, 29_500, 4, 7375),
        ({"epochs": 1.0}, 29_500, 8, 3688),
        ({"epochs": 1.0}, 29_500, 16, 1844),
        ({"epochs": 1.0}, 29_500, 32, 922),
        ({"epochs": 0.7}, 10, 1, 7),
        ({"samples": 100}, 10, 7, 15),
        ({"steps": 3}, 10, 7, 3),
    ],
)
def test_a_budget_becomes_updates(budget, num_samples, samples_per_step, num_steps):
    config = replace(PLAIN, **{"steps": None} | budget)
    run = resolve_steps(config, Position(), num_samples, samples_per_step)
    assert run.num_steps == num_steps
    assert resolve_steps(run, Position(1, samples_per_step), num_samples, samples_per_step) == run


def test_a_budget_counts_what_was_drawn_in_batches_of_another_size():
    config = replace(PLAIN, steps=None, samples=100)
    assert resolve_steps(config, Position(5, 50), 1000, 25).num_steps == 7
    assert resolve_steps(config, Position(10, 100), 1000, 25).num_steps == 10


def test_rates_follow_the_batch_as_asked():
    linear, root = (ScalingConfig(lr=lr, base_batch_size=4) for lr in ("linear", "sqrt"))
    assert [1.25e-6 * lr_factor(linear, batch) for batch in (4, 8, 16)] == [1.25e-6, 2.5e-6, 5e-6]
    assert [lr_factor(root, batch) for batch in (4, 16, 1)] == [1.0, 2.0, 0.5]
    assert lr_factor(ScalingConfig(), 1000) == 1.0


def read_run(run_dir: Path) -> tuple[dict, list[dict]]:
    rows = [json.loads(row) for row in (run_dir / "metrics.jsonl").open()]
    return json.loads((run_dir / "run.json").read_text()), rows


def test_all_groups_are_scaled_at_every_update_and_it_is_told(command, tmp_path, capsys):
    flags = ("--steps=3", "--log_freq=1", "--global_batch_size=6", "--policy.optimizer_lr=1e-3")
    flags += ("--scheduler.type=diffuser", "--scheduler.name=linear")
    scaling = ("--scaling.lr=linear", "--scaling.base_batch_size=3")
    run_training(read_train_config(command.argv(tmp_path / "run", *flags, *scaling)))
    facts, rows = read_run(tmp_path / "run")
    assert [row["lr"] for row in rows] == pytest.approx([2e-3, 2e-3 * 2 / 3, 2e-3 / 3])
    assert facts["batch"]["lr_factor"] == 2.0
    state = tmp_path / "run/checkpoints/last/training_state/scheduler_state.json"
    assert json.loads(state.read_text())["base_lrs"] == [2e-3, 2e-5]
    printed = capsys.readouterr().out
    assert "0.001 for a batch of 3, linear scaling to 6: x 2 = 0.002" in printed
    assert "below 256 may not need a higher learning rate" in printed


def test_a_budget_is_settled_once_and_kept_over_resuming(command, tmp_path, capsys):
    run_dir = tmp_path / "run"
    flags = ("--epochs=0.5", "--global_batch_size=8", "--batch_size=3")
    run_training(read_train_config(command.argv(run_dir, *flags)))
    facts, rows = read_run(run_dir)
    assert rows[-1]["step"] == 3
    assert facts["budget"] == {"asked": "epochs", "steps": 3, "samples": 24, "epochs": 24 / 39}
    assert facts["batch"]["effective"] == 8
    assert "8 per process over 1 processes, in 3 micro-batches of at most 3" in (
        capsys.readouterr().out
    )
    resumed = read_train_config([f"--resume={run_dir}"])
    assert (resumed.steps, resumed.epochs, resumed.batch_size) == (None, 0.5, 3)
    run_training(resumed)
    assert read_run(run_dir)[1] == rows
    run_training(read_train_config([f"--resume={run_dir}", "--samples=40"]))
    facts, rows = read_run(run_dir)
    assert (rows[-1]["step"], facts["budget"]["asked"]) == (5, "samples")


NUM_HELD_OUT = 990
"""In 31 chunks, the last one short: several processes never have as many each."""
SIZES = {"observation.state": 2, "observation.environment_state": 2, "action": 2}
FLAGS = (
    "--policy.dropout=0",
    "--policy.dim_feedforward=16",
    "--policy.chunk_size=2",
    "--policy.n_action_steps=2",
    "--dataset.eval_split=0.5",
    "--dataset.check=off",
    "--steps=4",
    "--log_freq=1",
    "--dtype=float64",
    "--global_batch_size=7",
    "--scheduler.type=diffuser",
    "--scheduler.name=linear",
    "--audit",
)
RUNS = {
    "one": (1, "--eval_steps=4"),
    "two": (2, "--eval_steps=4", "--batch_size=2"),
    "three": (3, "--eval_steps=4", "--batch_size=2"),
    "seven": (7, "--eval_steps=4"),
    "two without": (2, "--batch_size=2"),
    "one without": (1,),
}
"""Ways to make the same run; shares of two and three processes are uneven, and cut in parts."""


@pytest.fixture(scope="module")
def held_out_dataset(tmp_path_factory) -> Path:
    """A short episode to learn from, and one of many frames to be held out."""
    root = tmp_path_factory.mktemp("data") / "held_out"
    features = {
        name: {"dtype": "float32", "shape": (size,), "names": None} for name, size in SIZES.items()
    }
    random = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for length in (20, NUM_HELD_OUT):
            values = random.normal(size=(length, 2)).astype("f4")
            for value in values:
                writer.add_frame({**dict.fromkeys(SIZES, value), "task": "reach"})
            writer.save_episode()
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_act, held_out_dataset, in_ranks) -> dict[str, Path]:
    """The same run made in every way."""
    folder = tmp_path_factory.mktemp("runs")
    common = [f"--dataset.root={held_out_dataset}", *tiny_act, *FLAGS]
    in_ranks(
        [
            (num_ranks, folder / name, [*common, *flags])
            for name, (num_ranks, *flags) in RUNS.items()
        ]
    )
    return {name: folder / name for name in RUNS}


@pytest.mark.process
def test_losses_of_uneven_shares_are_those_of_the_global_batch(runs):
    _, alone = read_run(runs["one"])
    for name in ("two", "three", "seven"):
        _, rows = read_run(runs[name])
        for measure in ("loss", "l1_loss", "kld_loss", "grad_norm"):
            expected = [row[measure] for row in alone]
            assert [row[measure] for row in rows] == pytest.approx(expected, rel=1e-9), measure


@pytest.mark.process
def test_ranks_read_the_same_global_batches_each_sample_once(runs):
    def global_batches(run_dir: Path) -> list[list[int]]:
        files = sorted((run_dir / "audit").iterdir())
        ranks = [[json.loads(line) for line in file.open()] for file in files]
        return [sum((row["indices"] for row in rows), []) for rows in zip(*ranks, strict=True)]

    expected = global_batches(runs["one"])
    assert [len(batch) for batch in expected] == [7] * 4
    assert len(set(sum(expected, [])[:20])) == 20
    assert all(global_batches(runs[name]) == expected for name in RUNS)


@pytest.mark.process
def test_ranks_draw_different_numbers_that_are_those_of_the_global_batch(runs):
    def draws(name: str) -> list[list[list[float]]]:
        files = (runs[name] / f"draws-{rank}.json" for rank in range(RUNS[name][0]))
        return [json.loads(file.read_text())["latent_noise"] for file in files]

    (whole,) = draws("one")
    assert len({tuple(row) for row in whole}) == 7
    for name in ("two", "three", "seven"):
        assert sum(draws(name), []) == whole


@pytest.mark.process
def test_every_held_out_sample_is_counted_once_and_the_loss_is_the_same(runs):
    _, alone = read_run(runs["one"])
    for name in ("one", "two", "three", "seven"):
        row = read_run(runs[name])[1][-1]
        assert row["held_out_samples"] == NUM_HELD_OUT
        assert row["held_out_loss"] == pytest.approx(alone[-1]["held_out_loss"], rel=1e-9)


@pytest.mark.process
def test_schedules_go_on_once_per_update_whatever_the_world(runs):
    expected = pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])
    assert all([row["lr"] for row in read_run(run)[1]] == expected for run in runs.values())


@pytest.mark.process
@pytest.mark.parametrize("name", ["one", "two"])
def test_measuring_changes_no_loss_of_training(runs, weights, name):
    measured, plain = read_run(runs[name])[1], read_run(runs[f"{name} without"])[1]
    assert [row["loss"] for row in measured] == [row["loss"] for row in plain]
    for key, value in weights(runs[name]).items():
        assert torch.equal(value, weights(runs[f"{name} without"])[key]), key


@pytest.mark.process
def test_facts_tell_how_a_batch_is_spread(runs):
    batch = read_run(runs["three"])[0]["batch"]
    told = {"per_process": 2, "processes": 3, "accumulation": 2, "effective": 7, "is_even": False}
    assert told.items() <= batch.items()
    printed = (runs["three"] / "log.txt").read_text()
    assert "7 samples per step = 2 or 3 per process over 3 processes, in 2 micro-b" in printed


def test_the_held_out_loss_does_not_depend_on_the_batch(command, tmp_path, metrics):
    losses = set()
    for batch_size in (1, 5):
        run_dir = tmp_path / str(batch_size)
        flags = ("--dataset.eval_split=0.25", "--eval_steps=1", "--steps=1", "--optimizer.lr=1e-30")
        flags += (f"--batch_size={batch_size}",)
        run_training(read_train_config(command.argv(run_dir, *flags)))
        losses.add(metrics(run_dir)[1]["held_out_loss"])
    assert len(losses) == 1


def test_a_run_in_double_precision_continues_exactly(command, tmp_path, weights):
    flags = ("--dtype=float64", "--steps=6", "--batch_size=3", "--save_freq=3")
    run_training(read_train_config(command.argv(tmp_path / "whole", *flags)))
    run_training(read_train_config(command.argv(tmp_path / "parts", *flags, "--steps=3")))
    run_training(read_train_config([f"--resume={tmp_path / 'parts'}", "--steps=6"]))
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
    assert {value.dtype for value in whole.values()} == {torch.float64}
