"""The number of samples at a time that fits, found without a trace."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import UserError
from manyhands.parallel.collectives import is_local
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_learner
from manyhands.training.setup.batch_size_search import find_batch_size, halved
from manyhands.training.setup.data import alone, open_training_data

SEARCH = "--find_batch_size=true"
PARTS = ("--batch_size=2", "--accelerator.gradient_accumulation.steps=4")
UNSEEDED = {"py_rng_state", "np_rng_state"}
"""Random numbers of Python, which nothing here draws."""
SHARDED = "--parallelism.dp_shard=-1"


def files_of(run_dir: Path) -> dict[str, dict[str, torch.Tensor]]:
    """All tensors of a run's last checkpoint, by file."""
    folder = run_dir / "checkpoints" / "000004"
    return {
        str(file.relative_to(folder)): load_file(file) for file in folder.rglob("*.safetensors")
    }


def assert_same_run(one: Path, other: Path) -> None:
    found, expected = files_of(one), files_of(other)
    assert found.keys() == expected.keys()
    for file, tensors in found.items():
        for name in tensors.keys() - UNSEEDED:
            assert torch.equal(tensors[name], expected[file][name]), (file, name)
    losses = [
        [json.loads(row)["loss"] for row in (run / "metrics.jsonl").open()] for run in (one, other)
    ]
    assert losses[0] == losses[1]


@pytest.mark.process
def test_a_run_that_searched_is_that_which_knew(in_ranks, greedy, tmp_path, monkeypatch):
    # Rank 1 has less room; both have to do what it can.
    monkeypatch.setenv("ROOM_1", "2")
    monkeypatch.setenv("ROOM_0", "3")
    runs = {"alone": (1,), "ddp": (2,), "fsdp": (2, SHARDED)}
    argvs = {
        f"{name} {way}": (num_ranks, [*greedy, *flags, *own])
        for name, (num_ranks, *flags) in runs.items()
        for way, own in {"searched": (SEARCH,), "knew": PARTS}.items()
    }
    in_ranks([(ranks, tmp_path / name, argv) for name, (ranks, argv) in argvs.items()])
    for name, (num_ranks, *_) in runs.items():
        searched = tmp_path / f"{name} searched"
        assert_same_run(searched, tmp_path / f"{name} knew")
        log = (searched / "log.txt").read_text()
        assert "Batch size search: micro-batches of 2 samples fit (8, 4 did not)" in log
        batch = json.loads((searched / "run.json").read_text())["batch"]
        assert (batch["accumulation"], batch["effective"]) == (4, 8 * num_ranks)


@pytest.fixture
def make_learner(command, tmp_path):
    """Makes real learners that have room for some samples, and tells what was tried."""
    config = read_train_config(command.argv(tmp_path / "run", "--batch_size=7", "--steps=9"))
    data, config = open_training_data(config, alone)
    with joined_world(config) as world:

        def making(room: int):
            tried = []

            def refuse(_module, inputs) -> None:
                assert is_local()
                tried.append(len(inputs[0]["action"]))
                if tried[-1] > room:
                    torch.empty(1 << 46)

            def make(split: BatchSplit):
                learner, _ = build_learner(config, data.stats, world, split)
                learner.policy.network.register_forward_pre_hook(refuse)
                return learner

            return make, tried

        yield making, iter([data.source.batch(range(7))]), world


def test_what_fits_at_once_is_left_as_it_is(make_learner):
    making, batches, world = make_learner
    make, tried = making(7)
    split, notes = find_batch_size(BatchSplit(0, 1, 7), make, batches, world)
    assert (split, tried) == (BatchSplit(0, 1, 7), [7, 7])
    assert notes == ["Batch size search: micro-batches of 7 samples fit"]
    assert not is_local()


def test_halves_are_tried_until_one_fits(make_learner):
    making, batches, world = make_learner
    make, tried = making(3)
    split, notes = find_batch_size(BatchSplit(0, 1, 7), make, batches, world)
    assert (split.num_micro_batches, split.samples_per_step) == (4, 7)
    assert tried == [7, 4, *([2, 2, 2, 1] * 2)]
    assert notes == ["Batch size search: micro-batches of 2 samples fit (7, 4 did not)"]


def test_where_nothing_fits_the_user_is_told(make_learner):
    making, batches, world = make_learner
    make, tried = making(0)
    with pytest.raises(UserError, match="--find_batch_size found no batch size that fits"):
        find_batch_size(BatchSplit(0, 1, 7), make, batches, world)
    assert tried == [7, 4, 2, 1]


def test_other_errors_are_not_taken_for_a_lack_of_room(make_learner):
    making, batches, world = make_learner
    make, _ = making(7)

    def broken(split: BatchSplit):
        learner = make(split)
        learner.policy.network.register_forward_pre_hook(lambda *_: torch.ones(2) @ torch.ones(3))
        return learner

    with pytest.raises(RuntimeError, match="size"):
        find_batch_size(BatchSplit(0, 1, 7), broken, batches, world)
    assert not is_local()


@given(st.integers(1, 8), st.integers(1, 200))
def test_halving_ends_at_single_samples_and_leaves_no_rank_without(num_ranks, samples):
    split, world = BatchSplit(0, num_ranks, samples * num_ranks), None
    sizes = [split.micro_batch_size]
    while split.num_micro_batches < split.least_per_rank:
        split = halved(split, world)
        sizes.append(split.micro_batch_size)
        assert split.samples_per_step == samples * num_ranks
    assert sizes[-1] == 1
    assert all(later <= -(-earlier // 2) for earlier, later in pairwise(sizes))


def test_ranks_with_one_sample_less_set_the_limit():
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        split = BatchSplit(0, 2, 5)
        assert (split.most_per_rank, split.least_per_rank) == (3, 2)
        split = halved(split, world)
        assert split.num_micro_batches == 2
        with pytest.raises(UserError):
            halved(split, world)
