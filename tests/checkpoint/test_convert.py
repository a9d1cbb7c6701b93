"""Sharded checkpoints become policies that anyone loads."""

import pytest
import torch

from manyhands.checkpoint.convert import gather_checkpoint, merge_adapters
from manyhands.checkpoint.shards import shard_file, write_shard
from manyhands.config.resolve import read_train_config
from manyhands.config.runs.run_dir import checkpoint_damage
from manyhands.errors import CheckpointError
from manyhands.manifest import MANIFEST, describe_folder, manifest_text, read_manifest
from manyhands.parallel.host_buffers import HostBuffers
from manyhands.parallel.sharded_tensors import local_shards
from manyhands.policies.load import load_policy
from manyhands.training.start import run_training
from manyhands.training.step.learner_state import named_in


def test_shards_become_a_policy(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=1", "--ema.enable=true")))
    checkpoint = (run_dir / "checkpoints/last").resolve()
    folders = [checkpoint / name for name in ("pretrained_model", "pretrained_model_ema")]
    networks = [load_policy(folder).network for folder in folders]
    shards = checkpoint / "training_state/shards"
    shards.mkdir()
    parts = {}
    for folder, network in zip(folders, networks, strict=True):
        parts |= local_shards(named_in(folder.name, network), is_main=True, copies=HostBuffers())
        (folder / "model.safetensors").unlink()
    write_shard(shard_file(shards, 0, 1), parts)
    facts, _ = read_manifest(checkpoint)
    (checkpoint / MANIFEST).write_text(manifest_text(facts, describe_folder(checkpoint)))
    with pytest.raises(CheckpointError, match=f"convert --checkpoint={checkpoint}"):
        load_policy(folders[0])

    files = gather_checkpoint(run_dir)

    assert files == [folder / "model.safetensors" for folder in folders]
    assert checkpoint_damage(checkpoint) is None
    assert {"pretrained_model/model.safetensors"} < read_manifest(checkpoint)[1].keys()
    for folder, network in zip(folders, networks, strict=True):
        found, wanted = load_policy(folder).network.state_dict(), network.state_dict()
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_a_checkpoint_without_shards_needs_none(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=1")))
    with pytest.raises(CheckpointError, match="Only sharded checkpoints need converting"):
        gather_checkpoint(run_dir)


def test_a_policy_without_adapters_is_not_merged(command, tmp_path):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=1")))
    with pytest.raises(CheckpointError, match="has no adapters to merge"):
        merge_adapters(run_dir, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
