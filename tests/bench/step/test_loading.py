"""Training from the loader."""

import pytest

from manyhands_bench.step.loading import fill_caches, with_loader
from manyhands_bench.step.row import measured_row


def test_batches_of_the_loader_are_trained_on(open_subject, tiny_dataset):
    flags = (f"--dataset.root={tiny_dataset}", "--with_loader")
    with open_subject(*flags, shapes=()) as (bench, subject, world):
        fill_caches(subject.data)
        row, learner = measured_row("eager", subject, bench, world)
        loaded = with_loader(learner, row.samples_per_s, subject, bench, world)
        assert loaded.samples_per_s > 0 and loaded.num_workers == 0
        assert loaded.share == pytest.approx(loaded.samples_per_s / row.samples_per_s)
