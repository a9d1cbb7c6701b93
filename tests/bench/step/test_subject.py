"""Runs without their loop."""

from pathlib import Path

import numpy as np
import pytest
import torch

from manyhands.data.writing.writer import DatasetWriter
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_learner
from manyhands_bench.step.command import read_step_flags
from manyhands_bench.step.subject import (
    autocast_of,
    first_samples,
    stream_of,
    subject_of,
    tensor_shapes,
)


def test_made_up_data_needs_no_dataset(open_subject):
    with open_subject() as (_, subject, _world):
        assert subject.data is None and not subject.config.dataset.is_named
        assert len(subject.batch["action"]) == subject.split.samples_per_step == 4
        assert subject.config.policy.input_features.keys() <= subject.batch.keys()


def test_a_dataset_gives_its_features_and_its_first_batch(open_subject, tiny_dataset):
    with open_subject(f"--dataset.root={tiny_dataset}", shapes=()) as (_, subject, world):
        assert subject.data is not None and subject.config.dataset.is_named
        assert subject.batch["action"].shape == (4, 6, 2)
        stream = stream_of(subject.data, subject.config, world, subject.split)
        again = next(iter(stream.starting_at(0)))
        assert torch.equal(again["action"], subject.batch["action"])


@pytest.fixture
def filmed(tmp_path) -> Path:
    """A short episode with a camera."""
    vector = {"dtype": "float32", "shape": (3,), "names": None}
    camera = {"dtype": "image", "shape": (24, 40, 3), "names": ["height", "width", "channels"]}
    features = {"observation.state": vector, "action": vector, "observation.images.top": camera}
    with DatasetWriter.create(tmp_path / "filmed", 10, features) as writer:
        for number in range(6):
            frame = {name: np.full(3, number, "f4") for name in ("observation.state", "action")}
            frame["observation.images.top"] = np.full((24, 40, 3), number, np.uint8)
            writer.add_frame({**frame, "task": "look"})
        writer.save_episode()
    return tmp_path / "filmed"


@pytest.mark.parametrize(
    ("data", "are_kept"),
    [
        ("--cameras=2 --image_size=[24,40]", False),
        ("--dataset.root={}", False),
        ("--dataset.root={} --with_loader=true", True),
    ],
)
def test_tokens_take_the_place_of_images(tiny_vlm, filmed, tmp_path, data, are_kept):
    model = ("type=smolvla", f"vlm_model_name={tiny_vlm}", "random_vlm=true", "num_vlm_layers=2")
    sizes = ("resize_imgs_with_padding=[32,32]", "chunk_size=5", "n_action_steps=5", "device=cpu")
    own = ("--batch_size=4", "--num_workers=0", f"--cache.folder={tmp_path}")
    flags = (*data.format(filmed).split(), *(f"--policy.{each}" for each in (*model, *sizes)), *own)
    bench, config = read_step_flags([*flags, "--cache.vision_tokens=true"])
    with joined_world(config) as world:
        subject = subject_of(bench, config, world)
        learner, _ = build_learner(subject.config, subject.stats, world, subject.split)
        assert learner.train_step(subject.batch | {"task": ["look"] * 4}, 0).grad_norm.isfinite()
    cameras = {name for name in subject.config.policy.input_features if "image" in name}
    assert {subject.batch[f"{name}.tokens"].shape for name in cameras} == {(4, 4, 48)}
    assert not subject.batch.keys() & cameras and cameras <= subject.recorded.keys()
    assert are_kept == (subject.data is not None and subject.data.tokens is not None)


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
