"""Runs without their loop."""

import pytest
import torch

from manyhands.bench.step.subject import (
    autocast_of,
    first_samples,
    has_dataset,
    stream_of,
    tensor_shapes,
)


def test_made_up_data_needs_no_dataset(open_subject):
    with open_subject() as (_, subject, _world):
        assert subject.data is None and not has_dataset(subject.config)
        assert len(subject.batch["action"]) == subject.share.samples_per_step == 4
        assert subject.config.policy.input_features.keys() <= subject.batch.keys()


def test_a_dataset_gives_its_features_and_its_first_batch(open_subject, tiny_dataset):
    with open_subject(f"--dataset.root={tiny_dataset}", shapes=()) as (_, subject, world):
        assert subject.data is not None and has_dataset(subject.config)
        assert subject.batch["action"].shape == (4, 6, 2)
        stream = stream_of(subject.data, subject.config, world, subject.share)
        again = next(iter(stream.starting_at(0)))
        assert torch.equal(again["action"], subject.batch["action"])


def test_shapes_are_told_in_words_of_any_torch():
    batch = {"image": torch.zeros(2, 3, dtype=torch.uint8), "task": ["a", "b"]}
    assert tensor_shapes(batch) == {"image": ("uint8", (2, 3))}
    assert first_samples(batch, 1)["task"] == ["a"]


@pytest.mark.parametrize(("precision", "dtype"), [("no", torch.float32), ("bf16", torch.bfloat16)])
def test_networks_round_as_the_run_does(open_subject, precision, dtype):
    block = torch.ones(4, 4)
    with open_subject(f"--accelerator.mixed_precision={precision}") as (*_, world):
        with_rounding = autocast_of(world)
    with with_rounding:
        assert (block @ block).dtype == dtype
