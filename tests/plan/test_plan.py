"""Plans of runs."""

from dataclasses import replace

import pytest
import torch

from manyhands.cli.plan import read_plan_flags
from manyhands.plan.plan import DRIVER_BYTES, make_plan

SHAPES = ("--cameras=0", "--state_dim=3", "--action_dim=2")
GPU = torch.cuda.is_available()


def plan(*flags):
    return make_plan(*read_plan_flags(flags), lambda *_: None)


def test_rows_have_the_arithmetic_of_a_run(tiny_act, tiny_dataset):
    found = plan(
        f"--dataset.root={tiny_dataset}", *tiny_act, "--batch_size=4", "--epochs=3", "--gpus=[1,2]",
        "--scaling.lr=linear", "--scaling.base_batch_size=4", "--optimizer.lr=1e-4",
    )  # fmt: skip
    one, two, shared = found.rows
    assert (one.strategy, two.strategy, shared.strategy) == ("single", "DDP", "FSDP2")
    assert found.num_samples == 39
    assert (one.effective_batch, two.effective_batch) == (4, 8)
    assert (one.steps, two.steps) == (30, 15), "three epochs of 39 samples"
    assert one.steps_per_epoch == 39 / 4
    assert (one.lr, two.lr) == pytest.approx((1e-4, 2e-4))


def test_a_batch_that_is_fixed_is_spread(tiny_act):
    found = plan(*SHAPES, *tiny_act, "--global_batch_size=12", "--batch_size=2", "--gpus=[1,4]")
    one, four, _ = found.rows
    assert (one.batch_size, one.micro_batches, one.effective_batch) == (2, 6, 12)
    assert (four.batch_size, four.micro_batches, four.effective_batch) == (2, 2, 12)


def test_what_cannot_be_is_a_row_with_a_reason(tiny_act):
    found = plan(*SHAPES, *tiny_act, "--global_batch_size=2", "--gpus=[1,4]")
    assert found.rows[0].fault is None and found.is_possible
    assert all("--global_batch_size=2" in row.fault for row in found.rows[1:])


def test_learning_rates_are_relative_to_the_first_feasible_row(tiny_act):
    flags = ("--batch_size=4", "--parallelism.dp_shard=2", "--optimizer.lr=1e-4")
    one, two, four = plan(*SHAPES, *tiny_act, *flags, "--gpus=[1,2,4]").rows
    assert one.fault is not None and one.lr_rules == {}
    assert two.lr_rules == pytest.approx({"none": 1e-4, "linear": 1e-4, "sqrt": 1e-4})
    assert four.lr_rules["linear"] == pytest.approx(2e-4)


def test_no_gpu_of_a_row_is_idle(tiny_act):
    flags = ("--parallelism.gpus_per_process=4", "--gpus=[1,4,6]")
    one, four, six = plan(*SHAPES, *tiny_act, *flags).rows
    assert four.strategy == "DP" and four.lr_rules["linear"] == four.lr
    for row in (one, six):
        assert "--parallelism.gpus_per_process=4 does not divide" in row.fault
        assert "Set --gpus=[4]" in row.fault


def test_whether_it_fits_depends_on_the_memory(tiny_act):
    flags = (*SHAPES, *tiny_act, "--batch_size=4", "--gpus=[1]")
    (row,) = plan(*flags, "--gpu_memory=80GiB").rows
    assert row.fits
    found = plan(*flags, f"--gpu_memory={DRIVER_BYTES + row.memory.needed - 1}B")
    assert not found.rows[0].fits and not found.is_possible
    assert plan(*flags, f"--gpu_memory={DRIVER_BYTES + row.memory.needed}B").is_possible


@pytest.mark.skipif(GPU, reason="there is a GPU")
def test_without_a_gpu_nobody_knows_whether_it_fits(tiny_act):
    found = plan(*SHAPES, *tiny_act, "--gpus=[1]")
    assert found.rows[0].fits is None and found.is_possible


def test_the_plan_says_to_programs_what_it_says_to_people(tiny_act):
    found = plan(*SHAPES, *tiny_act, "--gpus=[1]")
    told = found.as_json()
    (row,) = told["rows"]
    memory = found.rows[0].memory
    assert row["memory"]["needed"] == memory.needed and row["memory"]["most"] == memory.most
    assert row["disk"]["most_bytes"] == found.rows[0].disk.most_bytes
    assert told["num_trained"] <= told["num_parameters"]
    assert replace(found, gpu_bytes=5).as_json()["gpu_bytes"] == 5
