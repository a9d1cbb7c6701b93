"""One action per tick out of chunks."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.policies.acting import ActionQueue, TemporalEnsemble


class Chunks:
    """A predictor that numbers its chunks and remembers them."""

    def __init__(self, chunk_size, num_samples=2):
        self.made = []
        self.shape = (num_samples, chunk_size, 3)

    def __call__(self):
        seed = torch.Generator().manual_seed(len(self.made))
        self.made.append(torch.randn(self.shape, generator=seed))
        return self.made[-1]


def test_the_queue_plays_the_first_steps_of_each_chunk():
    chunks, queue = Chunks(chunk_size=5), ActionQueue(num_steps=3)
    played = [queue.next_action(chunks) for _ in range(7)]
    assert len(chunks.made) == 3
    for tick, action in enumerate(played):
        assert torch.equal(action, chunks.made[tick // 3][:, tick % 3])


def test_a_reset_queue_asks_anew():
    chunks, queue = Chunks(chunk_size=5), ActionQueue(num_steps=3)
    queue.next_action(chunks)
    queue.reset()
    assert torch.equal(queue.next_action(chunks), chunks.made[1][:, 0])


@given(
    chunk_size=st.integers(1, 6),
    num_ticks=st.integers(1, 12),
    coeff=st.sampled_from([-0.1, 0.0, 0.01, 1.0]),
)
def test_the_ensemble_is_the_weighted_mean_of_all_chunks_that_reach_the_tick(
    chunk_size, num_ticks, coeff
):
    chunks, ensemble = Chunks(chunk_size), TemporalEnsemble(coeff, chunk_size)
    for tick in range(num_ticks):
        action = ensemble.next_action(chunks)
        reaching = [
            made[:, tick - start]
            for start, made in enumerate(chunks.made)
            if tick - start < chunk_size
        ]
        weights = [math.exp(-coeff * age) for age in range(len(reaching))]
        mean = sum(w * a for w, a in zip(weights, reaching, strict=True)) / sum(weights)
        torch.testing.assert_close(action, mean, rtol=0, atol=1e-5)


def test_a_reset_ensemble_forgets():
    chunks, ensemble = Chunks(chunk_size=4), TemporalEnsemble(0.01, 4)
    ensemble.next_action(chunks)
    ensemble.reset()
    assert torch.equal(ensemble.next_action(chunks), chunks.made[1][:, 0])
