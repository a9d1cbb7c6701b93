"""What a run of ours leaves behind is what LeRobot's own programs expect."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from policy_cases import NUM_SAMPLES, save_theirs, smolvla
from programs import MANYHANDS_TRAIN, run_program
from recordings import record_ours
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyhands import load_policy, open_dataset
from manyhands.lerobot_format.policy.folder import saved_tensors

NUM_STEPS = 3
MORE_STEPS = 5
SEED = 1234
ROUNDING = 5e-6
"""Single precision, in another order."""

FLAGS = {
    "policy.type": "act",
    "policy.input_features": json.dumps(
        {
            "observation.state": {"type": "STATE", "shape": [6]},
            "observation.environment_state": {"type": "ENV", "shape": [5]},
        }
    ),
    "policy.dim_model": 32,
    "policy.n_heads": 4,
    "policy.dim_feedforward": 64,
    "policy.chunk_size": 8,
    "policy.n_action_steps": 5,
    "policy.optimizer_lr": 1e-3,
    "policy.device": "cpu",
    "dataset.repo_id": "local/dataset",
    "ema.enable": "true",
    "ema.decay": 0.5,
    "batch_size": 3,
    "steps": NUM_STEPS,
    "save_freq": NUM_STEPS,
    "log_freq": 1,
    "num_workers": 0,
    "seed": 7,
}
FIELDS = (
    "batch_size",
    "steps",
    "save_freq",
    "log_freq",
    "num_workers",
    "seed",
    "policy.type",
    "policy.dim_model",
    "policy.chunk_size",
    "policy.device",
    "dataset.repo_id",
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of ours."""
    root = tmp_path_factory.mktemp("checkpoint") / "dataset"
    record_ours(root, "image")
    return root


@pytest.fixture(scope="module")
def checkpoint(dataset: Path) -> Path:
    """The checkpoint of a short run with averaged weights."""
    run = dataset.with_name("run")
    flags = FLAGS | {"dataset.root": dataset, "output_dir": run}
    run_program(MANYHANDS_TRAIN, flags)
    return (run / "checkpoints" / "last").resolve()


def test_lerobot_reads_the_configuration_of_our_run(checkpoint, lerobot, compared):
    theirs = lerobot("read_train_config", folder=checkpoint / "pretrained_model")
    for name in FIELDS:
        compared.same(f"train_config.json: {name}", FLAGS[name], inside(theirs, name))
    rates = (FLAGS["policy.optimizer_lr"], theirs["optimizer"]["lr"])
    compared("train_config.json: optimizer.lr", *rates)
    assert compared.faults() == []


def inside(tree: dict[str, Any], name: str) -> Any:
    """The value under a dotted name."""
    for key in name.split("."):
        tree = tree[key]
    return tree


def test_lerobot_train_resumes_our_run(checkpoint, lerobot, compared):
    config = checkpoint / "pretrained_model" / "train_config.json"
    flags = {"config_path": config, "resume": "true", "steps": MORE_STEPS, "save_freq": MORE_STEPS}
    run_program(lerobot.python.with_name("lerobot-train"), flags)
    last = checkpoint.parent / "last"
    document = json.loads((last / "training_state" / "training_step.json").read_text())
    compared("resumed by lerobot-train: step", MORE_STEPS, document["step"])
    policy = load_policy(last / "pretrained_model")
    names = sorted(policy.network.state_dict())
    theirs = sorted(load_file(last / "pretrained_model" / "model.safetensors"))
    compared.same("resumed by lerobot-train: tensor names", names, theirs)
    assert compared.faults() == []


def test_lerobot_train_resumes_our_run_of_smolvla_adapters(vlms, lerobot, compared, tmp_path):
    record_ours(tmp_path / "dataset", "video")
    place = {"vlm_model_name": str(vlms["float32"])}
    save_theirs(smolvla(1) | place, tmp_path / "base", lerobot)
    places = {"policy.path": tmp_path / "base", "dataset.root": tmp_path / "dataset"}
    common = {
        name: value for name, value in FLAGS.items() if not name.startswith(("policy", "ema"))
    }
    own = {"policy.device": "cpu", "peft.r": 4, "output_dir": tmp_path / "run"}
    run_program(MANYHANDS_TRAIN, common | places | own)

    last = tmp_path / "run/checkpoints/last/pretrained_model"
    first = load_file(last / "adapter_model.safetensors")
    flags = {"config_path": last / "train_config.json", "resume": "true", "steps": MORE_STEPS}
    run_program(lerobot.python.with_name("lerobot-train"), flags | {"save_freq": MORE_STEPS})
    theirs = load_file(last / "adapter_model.safetensors")
    ours = saved_tensors(load_policy(last).network)
    compared("adapters resumed by lerobot-train: all tensors", ours, theirs)
    moved = sorted(name for name in first if not torch.equal(first[name], theirs[name]))
    compared.same("adapters resumed by lerobot-train: trained tensors", sorted(ours), moved)
    assert compared.faults() == []


@pytest.mark.parametrize("weights", ["pretrained_model", "pretrained_model_ema"])
def test_trained_and_averaged_weights_act_alike_on_both_sides(
    weights, checkpoint, dataset, lerobot, compared, tmp_path
):
    folder, batch = checkpoint / weights, training_batch(dataset)
    save_file(batch, tmp_path / "batch")
    places = {"folder": folder, "batch": tmp_path / "batch", "out": tmp_path / "theirs"}
    lerobot("evaluate_policy", **places, seed=SEED, ticks=1)
    observation = {key: value for key, value in batch.items() if key.startswith("observation.")}
    torch.manual_seed(SEED)
    ours = load_policy(folder).predict_action_chunk(observation)
    theirs = load_file(tmp_path / "theirs")["chunk"]
    compared(f"{weights} after training: predicted chunk", ours, theirs, ROUNDING)
    assert compared.faults() == []


def training_batch(dataset: Path) -> dict[str, Tensor]:
    """A few samples as training reads them, without cameras."""
    keys = ("observation.state", "observation.environment_state", "action", "action_is_pad")
    samples = open_dataset(root=dataset, windows={"action": range(8)})
    batch = samples.batch(range(NUM_SAMPLES))
    return {key: batch[key] for key in keys}
