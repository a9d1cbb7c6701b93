"""Policies of sharded checkpoints, made loadable: the weights that ranks saved, in one file."""

from pathlib import Path

from manyhands.atomic import whole_file
from manyhands.checkpoint.shards import Shards
from manyhands.config.checkpoints import find_checkpoint
from manyhands.config.folders import AVERAGED, PRETRAINED, SHARDS, TRAINING_STATE
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import write_tensors
from manyhands.lerobot_format.policy import WEIGHTS_FILE
from manyhands.manifest import MANIFEST, entry_of, manifest_text, read_manifest


def gather_checkpoint(path: Path) -> list[Path]:
    """Put the weights of a run's or a checkpoint's shards into its policies; return their files."""
    checkpoint = find_checkpoint(path)
    folder = checkpoint / TRAINING_STATE / SHARDS
    if not folder.is_dir():
        raise CheckpointError(
            f"--checkpoint={path}: {folder} is missing; only checkpoints of sharded runs need "
            f"converting, all others hold {WEIGHTS_FILE}"
        )
    shards = Shards(folder)
    facts, entries = read_manifest(checkpoint)
    files = []
    for name in (PRETRAINED, AVERAGED):
        if (checkpoint / name).is_dir():
            files.append(checkpoint / name / WEIGHTS_FILE)
            with whole_file(files[-1]) as scratch:
                write_tensors(scratch, shards.read_folder(name), metadata={"format": "pt"})
            entries[f"{name}/{WEIGHTS_FILE}"] = entry_of(files[-1])
    with whole_file(checkpoint / MANIFEST) as scratch:
        scratch.write_text(manifest_text(facts, entries), "utf-8")
    return files
