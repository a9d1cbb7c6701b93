"""Exact evaluation: every sample once, the same results on any number of ranks.

Samples are split into chunks of a fixed size, which ranks compute in turn. Ranks that have fewer
repeat the last one, because a pass through sharded weights is collective; it is not counted.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from manyhands.engine.learner import OwnLearner
from manyhands.engine.own_model import Function, check_rows
from manyhands.engine.samples import Draw, Loading, dataset_size
from manyhands.evaluation.open_loop import rank_turns
from manyhands.parallel.nested import to_device
from manyhands.parallel.world import World

SEED = 0
"""Random transforms of an evaluated sample depend on its row alone."""


def evaluate(
    learner: OwnLearner,
    function: Function,
    dataset: Dataset[Any],
    batch_size: int,
    reading: tuple[World, Loading],
) -> Tensor:
    """Collective. A function of the model for all samples, in their order, on the CPU."""
    world, loading = reading
    rows = range(dataset_size(dataset))
    chunks = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    turns = rank_turns(len(chunks), world.rank, world.size)
    draws = [[Draw(row, row) for row in chunks[turn]] for turn in turns]
    own: dict[int, Tensor] = {}
    for turn, values in zip(turns, loading.batches(dataset, draws, SEED), strict=True):
        world.watch.begin("evaluate")
        found = learner.compute(function, to_device(values, world.device))
        check_rows(found, len(chunks[turn]), "the evaluated function")
        own[turn] = found.cpu()
    parts = world.gather(own)
    return torch.cat([parts[turn % len(parts)][turn] for turn in range(len(chunks))])
