"""Runs that read tokens instead of images are the same runs."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.data.cache.contents import StoreSummary, cached_stores
from manyhands.data.cache.store import FrameStore
from manyhands.data.cache.store_files import ABSENT, STATES, StoreSpec
from manyhands.data.images.cameras import EmbeddedImages, VideoFrames
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.policies.smolvla.decoder import VlmWithExpert
from manyhands.training.setup.vision_tokens import write_tokens
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
def flags_of(dataset, tiny_vlm, tmp_path):
    """The flags of a tiny run in a folder, with others of its own."""

    def flags(name: str, *own: str) -> list[str]:
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
        return [
            f"--dataset.root={dataset}",
            f"--output_dir={tmp_path / name}",
            f"--cache.folder={tmp_path / 'cache'}",
            "--policy.type=smolvla",
            *(f"--policy.{name}={value}" for name, value in sizes.items()),
            *("--num_workers=0", "--batch_size=4", "--log_freq=1", "--audit=true"),
            *own,
        ]

    return flags


@pytest.fixture
def train(flags_of, tmp_path):
    """Trains with flags of its own in a folder, for which it returns its path."""

    def run(name: str, *flags: str) -> Path:
        run_training(read_train_config(flags_of(name, *flags)))
        return tmp_path / name

    return run


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """How many images are encoded, each time."""
    numbers: list[int] = []
    encode = VlmWithExpert.image_tokens

    def counting(self: VlmWithExpert, pixels: torch.Tensor) -> torch.Tensor:
        numbers.append(len(pixels))
        return encode(self, pixels)

    monkeypatch.setattr(VlmWithExpert, "image_tokens", counting)
    return numbers


def kept_in(folder: Path) -> list[StoreSummary]:
    """The stores of tokens."""
    stores = cached_stores(folder / "cache")
    return [store for store in stores if "tokens" in store.description["size"]]


class FullStore(FrameStore):
    """A store on a disk that is full."""

    def __init__(self, store: FrameStore) -> None:
        vars(self).update(vars(store))

    def write(self, frame: int, encoded: bytes | memoryview) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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


def test_tokens_are_made_once_and_nothing_is_decoded_again(train, weights, encoded, monkeypatch):
    first = train("first", "--steps=2", TOKENS)
    # One picture for the shape of tokens, and then all of them, of both cameras.
    assert sorted(encoded) == [1, 1, 30, 30]
    encoded.clear()
    for kind in (VideoFrames, EmbeddedImages):
        monkeypatch.setattr(kind, "pictures", None)
    assert_same(first, train("again", "--steps=2", "--dataset.check=off", TOKENS), weights)
    assert encoded == [1, 1]


def test_a_filling_that_was_stopped_goes_on_where_it_stood(train, encoded, tmp_path):
    train("first", "--steps=1", TOKENS)
    for store in kept_in(tmp_path):
        states = np.fromfile(store.folder / STATES, np.uint8)
        states[[2, 5, 29]] = ABSENT
        states.tofile(store.folder / STATES)
    encoded.clear()
    train("again", "--steps=1", TOKENS)
    assert encoded == [1, 1, 3, 3]


def test_other_weights_have_tokens_of_their_own(train, tmp_path):
    train("one", "--steps=1", TOKENS)
    assert [store.num_present for store in kept_in(tmp_path)] == [30, 30]
    train("other", "--steps=1", "--seed=7", TOKENS)
    assert len(kept_in(tmp_path)) == 4


def test_a_run_that_is_resumed_goes_on_with_the_same_tokens(train, weights, encoded, tmp_path):
    whole = weights(train("whole", "--steps=4"))
    train("parts", "--steps=4", "--save_freq=2", TOKENS)
    shutil.copytree(tmp_path / "parts/checkpoints/000002", tmp_path / "half/checkpoints/000002")
    encoded.clear()
    run_training(read_train_config([f"--resume={tmp_path / 'half'}", "--num_workers=0"]))
    resumed = weights(tmp_path / "half")
    assert encoded == [1, 1]
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_several_datasets_and_names_of_their_own(train, weights, dataset, tmp_path):
    other = record(tmp_path / "other", (5, 6))
    mix = json.dumps({str(dataset): 2, str(other): 1})
    renamed = json.dumps({"observation.images.top": "observation.images.front"})
    flags = ("--steps=3", "--dataset.root=null", f"--dataset.mix={mix}", f"--rename_map={renamed}")
    assert_same(train("plain", *flags), train("tokens", *flags, TOKENS), weights)
    assert sorted(store.num_frames for store in kept_in(tmp_path)) == [11, 11, 30, 30]


def test_tokens_that_do_not_fit_are_done_without(train, weights, tmp_path, capfd):
    room = ("--cache.mode=disk", "--cache.max_disk=40KB")
    plain = train("plain", "--steps=2", *room)
    capfd.readouterr()
    run = train("tokens", "--steps=2", *room, TOKENS)
    assert "vision tokens are not cached, images are encoded every time" in capfd.readouterr().out
    assert_same(plain, run, weights)
    assert kept_in(tmp_path) == []


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--policy.train_expert_only=false", r"but connector\.\S+ is trained\. Freeze it"),
        ("--dataset.image_transforms.enable=true", "features of unaugmented images"),
        ("--cache.mode=off", "needs a cache"),
        ("--parallelism.dp_shard=2", "needs unsharded weights"),
    ],
)
def test_what_tokens_cannot_be_had_with_is_refused(train, flag, told):
    with pytest.raises(ConfigError, match=told):
        train("run", "--steps=1", TOKENS, flag)


def test_a_policy_without_tokens_is_refused(tiny_act, camera_dataset, tmp_path):
    flags = (*tiny_act, f"--dataset.root={camera_dataset}", f"--output_dir={tmp_path / 'run'}")
    backbone = "--policy.pretrained_backbone_weights=null"
    with pytest.raises(ConfigError, match="act has no image encoder to cache"):
        run_training(read_train_config([*flags, backbone, TOKENS, "--steps=1"]))


def test_a_full_disk_is_told_with_a_remedy(tmp_path):
    spec = StoreSpec("key", (2, 3), np.dtype(np.float32), num_frames=4)
    store = FrameStore(tmp_path, spec, max_bytes=1000)
    with pytest.raises(EnvironmentFault, match=r"No space left on device\. Free disk space"):
        write_tokens(np.zeros((1, 2, 3), np.float32), np.array([3]), FullStore(store))


@pytest.mark.exact
@pytest.mark.process
def test_ranks_share_the_work_and_train_as_they_do_on_images(flags_of, in_ranks, weights, tmp_path):
    kinds = {"plain": (), "tokens": (TOKENS,)}
    in_ranks(
        [(2, tmp_path / name, flags_of(name, "--steps=2", *own)) for name, own in kinds.items()]
    )
    assert_same(tmp_path / "plain", tmp_path / "tokens", weights)
    assert [store.num_present for store in kept_in(tmp_path)] == [30, 30]
