"""Converts policies to a single weights file: gathers shards, merges adapters."""

from pathlib import Path

from manyhands.atomic import atomic_directory, atomic_file
from manyhands.checkpoint.shards import Shards
from manyhands.config.runs.run_dir import (
    PRETRAINED,
    PRETRAINED_EMA,
    SHARDS,
    TRAINING_STATE,
    find_checkpoint,
)
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import write_tensors
from manyhands.lerobot_format.policy.folder import (
    WEIGHTS_FILE,
    PolicyFiles,
    read_settings,
    weights_file,
)
from manyhands.manifest import MANIFEST, describe_file, manifest_text, read_manifest
from manyhands.policies.adapters import merge
from manyhands.policies.load import find_policy, load_policy


def gather_checkpoint(path: Path) -> list[Path]:
    """Gather the shards of a checkpoint into the weights files of its policies; return them."""
    checkpoint = find_checkpoint(path, "--checkpoint=")
    folder = checkpoint / TRAINING_STATE / SHARDS
    if not folder.is_dir():
        raise CheckpointError(
            f"--checkpoint={path}: {folder} is missing. Only sharded checkpoints need converting; "
            f"all others have {WEIGHTS_FILE} already. To merge adapters, set --output=FOLDER"
        )
    shards = Shards(folder)
    facts, entries = read_manifest(checkpoint)
    files = []
    for name in (PRETRAINED, PRETRAINED_EMA):
        if (checkpoint / name).is_dir():
            files.append(weights_file(checkpoint / name))
            with atomic_file(files[-1]) as scratch:
                write_tensors(scratch, shards.read_folder(name), metadata={"format": "pt"})
            entries[f"{name}/{files[-1].name}"] = describe_file(files[-1])
    with atomic_file(checkpoint / MANIFEST) as scratch:
        scratch.write_text(manifest_text(facts, entries), "utf-8")
    return files


def merge_adapters(path: Path, output: Path) -> Path:
    """Write a copy of a policy with merged adapters; return its weights file."""
    folder = find_policy(path)
    if read_settings(folder) is None:
        raise CheckpointError(f"--checkpoint={path}: {folder} has no adapters to merge")
    policy = load_policy(folder, device="cpu")
    merge(policy)
    with atomic_directory(output) as scratch:
        # The device of the merge is not the device of the policy.
        PolicyFiles(policy.config, policy.processors, policy.network.state_dict()).write(scratch)
    return weights_file(output)
