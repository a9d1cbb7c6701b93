"""Names of metrics: LeRobot's where it logs the same."""

import math

import pytest

from manyhands.observe.trackers.keys import eval_counts, eval_values, train_values

ROW = {
    "step": 10,
    "loss": 0.5,
    "l1_loss": 0.25,
    "lr": 1e-4,
    "grad_norm": 2.0,
    "samples_per_s": 100.0,
    "data_s": 0.01,
    "update_s": 0.03,
    "data_wait_share": 0.2,
    "gpu_memory_bytes": 3 << 30,
    "num_skipped": 0,
}


def test_training_has_the_names_of_lerobot_and_ours_beside_them(tracked_run):
    assert train_values(ROW, tracked_run()) == {
        "train/steps": 10,
        "train/samples": 40,
        "train/episodes": 4.0,
        "train/epochs": 2.0,
        "train/loss": 0.5,
        "train/l1_loss": 0.25,
        "train/lr": 1e-4,
        "train/grad_norm": 2.0,
        "train/samples_per_s": 100.0,
        "train/dataloading_s": 0.01,
        "train/update_s": 0.03,
        "train/gpu_mem_gb": 3.0,
        "train/gpu_memory_bytes": 3 << 30,
        "train/data_wait_share": 0.2,
        "train/num_skipped": 0,
    }


def test_an_average_has_its_decay_and_step(tracked_run):
    values = train_values(ROW, tracked_run("--ema.enable=true", "--ema.decay=0.9"))
    assert (values["train/ema/decay"], values["train/ema/step"]) == (0.9, 10)


def test_evaluations_have_the_names_and_percents_of_lerobot(tracked_run):
    row = ROW | {"held_out_loss": 1.5, "held_out_l1_loss": 1.0, "held_out_loss_ema": 1.25}
    row |= {"eval_success": 0.75, "eval_sum_reward": 3.0, "eval_max_reward": 1.0, "eval_s": 9.0}
    row |= {"eval_episodes": 8, "eval_success_low": 0.5, "open_loop_error/elbow": 0.125}
    values = eval_values(row)
    assert values == {
        "eval/eval_loss": 1.5,
        "eval/held_out_l1_loss": 1.0,
        "eval/eval_loss_ema": 1.25,
        "eval/pc_success": 75.0,
        "eval/pc_success_low": 50.0,
        "eval/avg_sum_reward": 3.0,
        "eval/avg_max_reward": 1.0,
        "eval/n_episodes": 8,
        "eval/eval_s": 9.0,
        "eval/open_loop_error/elbow": 0.125,
    }
    counts = {"eval/steps": 10, "eval/samples": 40, "eval/episodes": 4.0, "eval/epochs": 2.0}
    assert eval_counts(10, tracked_run()) == counts
    assert not values.keys() & counts.keys()
    assert not any(
        name.startswith(("train/held", "train/eval")) for name in train_values(row, tracked_run())
    )


def test_what_is_no_number_is_skipped_and_nan_is_not(tracked_run):
    values = train_values(ROW | {"note": "text", "none": None, "loss": math.nan}, tracked_run())
    assert "train/note" not in values and "train/none" not in values
    assert values["train/loss"] == pytest.approx(math.nan, nan_ok=True)
