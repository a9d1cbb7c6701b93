"""Values in dictionaries and tuples."""

from typing import NamedTuple

import torch

from manyhands.parallel.accelerate_engine import micro_batch
from manyhands.parallel.nested import map_leaves, to_device


class Pair(NamedTuple):
    """Two values with names."""

    image: torch.Tensor
    label: torch.Tensor


def test_containers_keep_their_kind_and_lists_are_leaves():
    values = {"a": (1, {"b": 2}), "names": ["x", "y"]}
    assert map_leaves(values, lambda leaf: leaf * 2) == {
        "a": (2, {"b": 4}),
        "names": ["x", "y", "x", "y"],
    }
    pair = map_leaves(Pair(torch.ones(2), torch.zeros(2)), lambda leaf: leaf + 1)
    assert isinstance(pair, Pair) and pair.image.tolist() == [2, 2]


def test_only_tensors_move_to_a_device():
    moved = to_device({"image": (torch.ones(2), "text")}, torch.device("meta"))
    assert moved["image"][0].is_meta and moved["image"][1] == "text"


def test_micro_batches_slice_tuples_as_they_slice_dictionaries():
    batch = {"inputs": (torch.arange(5), {"names": [*"abcde"]}), "function": len}
    parts = [micro_batch(batch, number, 2) for number in range(2)]
    assert [part["inputs"][0].tolist() for part in parts] == [[0, 1, 2], [3, 4]]
    assert [part["inputs"][1]["names"] for part in parts] == [["a", "b", "c"], ["d", "e"]]
    assert all(part["function"] is len for part in parts)
