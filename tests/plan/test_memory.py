"""What a GPU holds of a run."""

import json
import subprocess
import sys

import pytest
import torch

from manyhands.cli.plan import read_plan_flags
from manyhands.config.launch.launcher import Launcher
from manyhands.parallel.strategy import resolve_strategy
from manyhands.plan.fake_step import FakeSteps
from manyhands.plan.memory import memory_footprint, model_sizes
from manyhands.plan.plan import make_plan
from manyhands.plan.topologies import plan_topology
from manyhands.training.step.trial import RESERVED_BYTES


@pytest.fixture(scope="module")
def footprint(planned):
    """Finds what a GPU holds of a run; its policy is the same, and rehearses each update once."""
    rehearsals = FakeSteps(planned()[1])

    def find(gpus, *flags, num_micro_batches=1):
        accumulation = f"--accelerator.gradient_accumulation.steps={num_micro_batches}"
        config, _ = planned("--batch_size=8", accumulation, *flags)
        spread = plan_topology(gpus, config, None)
        sizes = model_sizes(rehearsals.network, config, spread.strategy)
        return sizes, memory_footprint(rehearsals, sizes, spread)

    return find


def test_adam_remembers_two_numbers_a_weight_and_an_average_is_one_more(footprint):
    sizes, memory = footprint(1)
    assert memory.weights == sizes.weights and memory.optimizer == 2 * sizes.trained
    averaging, more = footprint(1, "--ema.enable=true")
    assert more.weights == memory.weights + averaging.trained


@pytest.mark.parametrize(("momentum", "number"), [(0.0, 0), (0.9, 1)])
def test_sgd_remembers_its_momentum_if_it_has_one(footprint, momentum, number):
    flags = ("--optimizer.type=sgd", f"--optimizer.momentum={momentum}")
    sizes, memory = footprint(1, *flags)
    assert memory.optimizer == number * sizes.trained


def test_a_captured_step_is_compared_by_two_copies_and_only_where_there_is_one(footprint):
    sizes, memory = footprint(1)
    assert memory.capture == 2 * 3 * sizes.trained
    assert memory.most == memory.needed + memory.capture
    assert footprint(1, "--step.mode=eager")[1].capture == 0
    assert footprint(2, "--parallelism.dp_shard=2")[1].capture == 0


def test_the_default_mode_tries_the_compiled_step_in_a_process_as_large_as_the_run(footprint):
    memory = footprint(1)[1]
    assert memory.trial == memory.most + RESERVED_BYTES
    for flag in ("--step.mode=graph", "--step.mode=eager", "--cudnn_deterministic=true"):
        assert footprint(1, flag)[1].trial == 0
    assert footprint(2, "--parallelism.dp_shard=2")[1].trial == 0


def test_shards_share_what_whole_weights_repeat(footprint):
    _, whole = footprint(4)
    two, four = (footprint(n, "--parallelism.dp_shard=-1")[1] for n in (2, 4))
    assert whole.optimizer == 2 * two.optimizer == 4 * four.optimizer
    assert four.needed < two.needed < whole.needed


def test_copies_of_one_shared_set_of_weights_are_shared_by_their_own(footprint):
    _, hybrid = footprint(4, "--parallelism.dp_replicate=2", "--parallelism.dp_shard=2")
    _, sharded = footprint(2, "--parallelism.dp_shard=2")
    assert hybrid == sharded


def test_micro_batches_and_ddp_keep_gradients(footprint):
    _, single = footprint(1)
    assert footprint(1, num_micro_batches=2)[1].update > single.update
    sizes, copied = footprint(2, "--accelerator.ddp.gradient_as_bucket_view=false")
    _, shared = footprint(2)
    assert copied.update == shared.update + sizes.trained and shared.update > single.update


def test_weights_that_are_not_trained_have_no_gradients(planned):
    config, policy = planned()
    whole = model_sizes(policy.network, config, resolve_strategy(config, Launcher()))
    next(policy.network.parameters()).requires_grad_(False)
    frozen = model_sizes(policy.network, config, resolve_strategy(config, Launcher()))
    assert frozen.weights == whole.weights and frozen.trained < whole.trained
    assert frozen.changed == 3 * frozen.trained


@pytest.mark.gpu
@pytest.mark.gpu_serial
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(
    "flags",
    [
        ("--policy.type=act", "--cameras=2", "--image_size=[480,640]", "--batch_size=32"),
        ("--policy.type=diffusion", "--image_size=[96,96]", "--batch_size=64"),
        ("--policy.type=smolvla", "--policy.random_vlm=true", "--cameras=2", "--batch_size=16"),
    ],
    ids=["act", "diffusion", "smolvla"],
)
def test_a_gpu_takes_what_was_told(flags, tmp_path):
    own = ("--compare=[eager,graph]", "--num_steps=2", "--warm_up=2", f"--json={tmp_path / 'step'}")
    # A process of its own: workspaces of libraries stay, whoever asked for them.
    bench = [sys.executable, "-m", "manyhands", "bench", "step", *flags, *own]
    subprocess.run(bench, check=True, timeout=200)
    rows = json.loads((tmp_path / "step").read_text())["rows"]
    measured = {row["mode"]: row["peak_memory_gib"] for row in rows}
    (row,) = make_plan(*read_plan_flags([*flags, "--gpus=[1]"]), lambda *_: None).rows
    told = {"graph": row.memory.most / 2**30, "eager": row.memory.needed / 2**30}
    assert told == pytest.approx(measured, rel=0.15)
