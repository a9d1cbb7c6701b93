"""Runs that read tokens instead of images are the same runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.data.cache.contents import cached_stores
from manyhands.data.pictures.video import VideoReader
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import ConfigError
from manyhands.policies.smolvla.decoder import VlmWithExpert
from manyhands.training.start import run_training

AXES = ["height", "width", "channels"]
CAMERAS = {"observation.images.top": "video", "observation.images.wrist": "image"}
TOKENS = "--cache.vision_tokens=true"


def record(root: Path, lengths: tuple[int, ...]) -> Path:
    """Short episodes with a camera of video and one of pictures."""
    features = {
        "observation.state": {"dtype": "float32", "shape": (4,), "names": None},
        "action": {"dtype": "float32", "shape": (3,), "names": None},
    }
    for name, kind in CAMERAS.items():
        features[name] = {"dtype": kind, "shape": (32, 48, 3), "names": AXES}
    draw = np.random.default_rng(len(lengths))
    with DatasetWriter.create(root, 10, features) as writer:
        for length in lengths:
            for _ in range(length):
                pictures = {
                    name: draw.integers(0, 256, (32, 48, 3), dtype=np.uint8) for name in CAMERAS
                }
                vectors = {
                    "observation.state": draw.normal(size=4).astype("f4"),
                    "action": draw.normal(size=3).astype("f4"),
                }
                writer.add_frame({**vectors, **pictures, "task": "stack"})
            writer.save_episode()
    return root


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    return record(tmp_path_factory.mktemp("data") / "filmed", (9, 7, 8, 6))


@pytest.fixture
def train(dataset, tiny_vlm, tmp_path):
    """Trains with flags of its own in a folder, for which it returns its path."""

    def run(name: str, *flags: str) -> Path:
        sizes = {
            "vlm_model_name": tiny_vlm,
            "random_vlm": "true",
            "num_vlm_layers": 2,
            "chunk_size": 4,
            "n_action_steps": 4,
            "resize_imgs_with_padding": "[32,32]",
            "max_state_dim": 8,
            "max_action_dim": 6,
            "device": "cpu",
        }
        common = (
            f"--dataset.root={dataset}",
            f"--output_dir={tmp_path / name}",
            f"--cache.folder={tmp_path / 'cache'}",
            "--policy.type=smolvla",
            *(f"--policy.{name}={value}" for name, value in sizes.items()),
            *("--num_workers=0", "--batch_size=4", "--log_freq=1", "--audit=true"),
        )
        run_training(read_train_config([*common, *flags]))
        return tmp_path / name

    return run


def outcome(run: Path, weights) -> tuple[list[dict[str, float]], str, dict[str, torch.Tensor]]:
    names = ("loss", "grad_norm", "held_out_loss")
    rows = [json.loads(row) for row in (run / "metrics.jsonl").open()]
    audit = (run / "audit/rank-00.jsonl").read_text()
    told = [{name: row[name] for name in names if name in row} for row in rows]
    return told, audit, weights(run)


def assert_same(first: Path, second: Path, weights) -> None:
    (one, one_audit, trained), (two, two_audit, others) = (
        outcome(each, weights) for each in (first, second)
    )
    assert one == two and one_audit == two_audit
    assert all(torch.equal(others[name], value) for name, value in trained.items())


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--accelerator.mixed_precision=bf16",),
        ("--dataset.eval_split=0.25", "--eval_steps=2", "--policy.empty_cameras=1"),
        ("--dataset.episodes=[1, 3]", "--cache.mode=ram", "--num_workers=1"),
    ],
    ids=["float32", "bf16", "held out", "chosen, in memory"],
)
def test_a_run_on_tokens_is_the_same_run(train, weights, flags):
    plain = train("plain", "--steps=3", *flags)
    assert_same(plain, train("tokens", "--steps=3", TOKENS, *flags), weights)
