"""Batches of a dataset on any number of ranks."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import IterableDataset, TensorDataset

from manyhands.engine.samples import (
    Draw,
    EpochSampler,
    Loading,
    build_order,
    collate_tuples,
    dataset_size,
)
from manyhands.errors import DatasetError

SIZES = st.integers(1, 40)


def rows_of_ranks(num_samples: int, size: int, num_ranks: int, num_micro_batches: int):
    """For each global batch of an epoch: the rows that count, on all ranks."""
    order = build_order(TensorDataset(torch.arange(num_samples)), seed=1)
    ranks = [
        EpochSampler(order, size, rank, num_ranks, num_micro_batches) for rank in range(num_ranks)
    ]
    for batch in ranks[0].global_batches(0):
        rows = []
        for sampler in ranks:
            draws, weights = sampler.draws(batch), sampler.weights(batch)
            assert len(draws) == len(weights) >= num_micro_batches
            counted = zip(draws, weights.tolist(), strict=True)
            rows += [draw.row for draw, weight in counted if weight == 1]
        yield rows


@settings(max_examples=40)
@given(SIZES, SIZES, st.integers(1, 7), st.integers(1, 3))
def test_global_batches_do_not_depend_on_ranks(num_samples, size, num_ranks, num_micro_batches):
    many = [*rows_of_ranks(num_samples, size, num_ranks, num_micro_batches)]
    assert many == [*rows_of_ranks(num_samples, size, 1, 1)]
    assert sorted(sum(many, [])) == [*range(num_samples)]
    assert [len(batch) for batch in many[:-1]] == [size] * (len(many) - 1)


@settings(max_examples=40)
@given(SIZES, SIZES, st.data())
def test_an_epoch_continues_at_any_of_its_batches(num_samples, size, data):
    order = build_order(TensorDataset(torch.arange(num_samples)), seed=1)
    sampler = EpochSampler(order, size, 0, 1)
    whole = sampler.global_batches(0) + sampler.global_batches(num_samples)
    place = data.draw(st.integers(0, len(whole) - 1))
    rest = sampler.global_batches(whole[place].start)
    assert rest == whole[place : place + len(rest)]
    assert rest[-1].stop % num_samples == 0


class Noisy:
    """Every read draws from all generators."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, row: int) -> tuple[float, float, float, int]:
        return torch.rand(()).item(), float(np.random.rand()), random.random(), row


def test_random_transforms_depend_on_the_position_alone():
    draws = [[Draw(7, 2), Draw(8, 1)], [Draw(9, 2)]]
    first, second = ([*Loading().batches(Noisy(), draws, seed=3)] for _ in range(2))
    assert all(torch.equal(*each) for each in zip(first[0], second[0], strict=True))
    # Read alone and by another process, and the same row at another position.
    (alone,) = Loading(num_workers=1).batches(Noisy(), [[Draw(8, 1)]], seed=3)
    assert [value[0].item() for value in alone] == [value[1].item() for value in first[0]]
    assert first[0][0][0] != first[1][0][0]


def test_tuples_stay_tuples_and_texts_a_list():
    samples = [{"pair": (torch.zeros(2), number), "name": f"{number}"} for number in (1, 2)]
    batch = collate_tuples(samples)
    assert isinstance(batch["pair"], tuple) and batch["pair"][1].tolist() == [1, 2]
    assert batch["name"] == ["1", "2"]


class Endless(IterableDataset):
    """Samples without a number."""

    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("dataset", "fault"),
    [(Endless(), "Endless has no length"), (TensorDataset(torch.zeros(0)), "has no samples")],
)
def test_a_dataset_that_has_no_order_is_rejected(dataset, fault):
    with pytest.raises(DatasetError, match=fault):
        dataset_size(dataset)
