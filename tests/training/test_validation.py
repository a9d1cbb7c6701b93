"""The held-out loss."""

import numpy as np
import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.data.dataset import open_dataset
from manyhands.data.mixture import Mixture
from manyhands.data.policy_reading import windows_of
from manyhands.policies.load import load_policy
from manyhands.training.start import run_training
from manyhands.training.validation import CHUNK, chunk_means, held_out_rows, rank_chunks

HELD_OUT = ("--dataset.eval_split=0.25", "--eval_steps=2", "--steps=4", "--log_freq=10")


def test_it_is_the_loss_of_the_policy_on_every_held_out_sample(
    command, tmp_path, metrics, tiny_dataset
):
    flags = (*HELD_OUT, "--policy.use_vae=false")
    run_training(read_train_config(command.argv(tmp_path / "run", *flags)))
    rows = metrics(tmp_path / "run")
    assert {step for step, row in rows.items() if "held_out_loss" in row} == {2, 4}
    policy = load_policy(tmp_path / "run" / "checkpoints" / "last").eval()
    held_out = open_dataset(root=tiny_dataset, episodes=[3], windows=windows_of(policy.config))
    loss, terms = policy.training_loss(held_out.batch(range(len(held_out))))
    assert rows[4]["held_out_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert rows[4]["held_out_l1_loss"] == pytest.approx(terms["l1_loss"].item(), rel=1e-5)


def test_a_latent_policy_is_measured_as_it_is_trained_and_as_it_predicts(
    command, tmp_path, metrics, tiny_dataset
):
    flags = (*HELD_OUT, "--policy.dropout=0", "--optimizer.lr=1e-12")
    run_training(read_train_config(command.argv(tmp_path / "run", *flags)))
    row, kl_weight = metrics(tmp_path / "run")[4], 10.0
    terms = row["held_out_l1_loss"] + kl_weight * row["held_out_kld_loss"]
    assert row["held_out_loss"] == pytest.approx(terms)
    # Without learning and dropout, only the samples and their noise are others than in training.
    assert row["held_out_kld_loss"] == pytest.approx(row["kld_loss"], rel=0.3)

    policy = load_policy(tmp_path / "run" / "checkpoints" / "last").eval()
    held_out = open_dataset(root=tiny_dataset, episodes=[3], windows=windows_of(policy.config))
    loss, _ = policy.training_loss(held_out.batch(range(len(held_out))))
    assert row["held_out_prediction_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert row["held_out_prediction_loss"] != row["held_out_l1_loss"]


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_the_average_of_the_weights_is_measured_beside_them(
    command, tmp_path, metrics, tiny_dataset, precision
):
    flags = (*HELD_OUT, "--policy.use_vae=false", "--ema.enable=true", "--ema.decay=0.9")
    flags += (f"--accelerator.mixed_precision={precision}", "--optimizer.lr=0.05")
    run_training(read_train_config(command.argv(tmp_path / "run", *flags)))
    row = metrics(tmp_path / "run")[4]
    for ending in ("", "_ema"):
        folder = tmp_path / "run/checkpoints/last" / f"pretrained_model{ending}"
        policy = load_policy(folder).eval()
        held_out = open_dataset(root=tiny_dataset, episodes=[3], windows=windows_of(policy.config))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, precision == "bf16"):
            loss, _ = policy.training_loss(held_out.batch(range(len(held_out))))
        assert row[f"held_out_loss{ending}"] == pytest.approx(loss.item(), rel=1e-5)
    assert row["held_out_loss"] != pytest.approx(row["held_out_loss_ema"], rel=1e-3)


@pytest.mark.exact
def test_it_is_the_same_at_any_number_of_processes(command, tmp_path, metrics):
    flags = (*HELD_OUT, "--policy.dropout=0")
    command.train(tmp_path / "one", *flags, "--batch_size=6")
    for number in (2, 3):
        run_dir = tmp_path / str(number)
        split = (f"--launch.num_processes={number}", f"--batch_size={6 // number}")
        command.train(run_dir, *flags, *split)
        for step in (2, 4):
            alone = metrics(tmp_path / "one")[step]["held_out_loss"]
            assert metrics(run_dir)[step]["held_out_loss"] == pytest.approx(alone, rel=1e-5)


def test_measuring_does_not_change_training(command, tmp_path, weights):
    averaging = (*HELD_OUT, "--ema.enable=true")
    run_training(read_train_config(command.argv(tmp_path / "with", *averaging)))
    flags = [flag for flag in HELD_OUT if "eval_steps" not in flag]
    run_training(read_train_config(command.argv(tmp_path / "without", *flags)))
    measured, plain = weights(tmp_path / "with"), weights(tmp_path / "without")
    assert all(torch.equal(measured[name], plain[name]) for name in plain)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("num_samples", [1, CHUNK, 5 * CHUNK + 1])
def test_ranks_make_as_many_passes_and_each_chunk_has_its_owner(num_samples, num_ranks):
    chunks = [rank_chunks(num_samples, rank, num_ranks) for rank in range(num_ranks)]
    assert len({len(own) for own in chunks}) == 1
    num_chunks = -(-num_samples // CHUNK)
    assert all(number in chunks[number % num_ranks] for number in range(num_chunks))
    # Only the last of a rank's chunks may be short: they are read in one sequence.
    assert all(own == sorted(own) and own[-1] < num_chunks for own in chunks)


def test_means_are_over_entries_and_not_over_chunks():
    parts = [
        {"l1": (6.0, 3.0, 1.0), "kl": (1.0, 1.0, 10.0)},
        {"l1": (0.0, 1.0, 1.0), "kl": (3.0, 1.0, 10.0)},
    ]
    assert chunk_means(parts) == {"held_out_loss": 21.5, "held_out_l1": 1.5, "held_out_kl": 2.0}


def test_a_number_of_samples_is_divided_over_tasks(shared):
    dataset = open_dataset(root=shared / "fixtures/datasets/many_small_files")
    tasks = np.array([dataset[row]["task_index"].item() for row in range(len(dataset))])
    rows = held_out_rows(dataset, 2 * len(np.unique(tasks)))
    for task in np.unique(tasks):
        assert rows[np.isin(rows, np.flatnonzero(tasks == task))].tolist() == (
            np.flatnonzero(tasks == task)[:2].tolist()
        )
    assert held_out_rows(dataset, 0).tolist() == list(range(len(dataset)))


def test_tasks_of_different_datasets_are_different_ones(tiny_dataset):
    parts = [open_dataset(root=tiny_dataset, episodes=[number]) for number in (0, 1)]
    assert held_out_rows(Mixture(parts, []), 4).tolist() == [0, 1, 9, 10]
    assert CHUNK > 1
