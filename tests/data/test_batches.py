"""Batches in memory of their own."""

import numpy as np
import torch

from manyhands.data.batches import ArraySpec, read_batch


class Squares:
    """A source whose values tell their row."""

    def layout(self, num_samples):
        return {"square": ArraySpec((num_samples, 2), np.dtype("i8"))}

    def fill(self, rows, arrays):
        arrays["square"][...] = rows[:, None] ** 2
        return {"text": [str(row) for row in rows]}


def test_a_batch_holds_arrays_as_tensors_and_texts_as_lists():
    batch = read_batch(Squares(), np.array([3, 1]))
    assert torch.equal(batch["square"], torch.tensor([[9, 9], [1, 1]]))
    assert batch["text"] == ["3", "1"]


def test_batches_do_not_share_memory():
    first, second = (read_batch(Squares(), np.array([row])) for row in (2, 3))
    assert first["square"].tolist() == [[4, 4]] and second["square"].tolist() == [[9, 9]]
