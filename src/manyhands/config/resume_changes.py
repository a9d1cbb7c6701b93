"""Differences between a resumed run and its checkpoint."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyhands.config.files.config_files import to_json
from manyhands.config.paths.stored import with_absolute_paths
from manyhands.config.runs.run_dir import OWN_CONFIG, TRAINING_STATE
from manyhands.config.train import TrainConfig

START_ONLY = ("resume", "output_dir", "launch", "policy.pretrained_path")
"""Settings that say how and where a run is started."""
FREE = {
    *("device", "use_amp", "push_to_hub", "repo_id", "private", "tags", "license"),
    *("pretrained_path", "pretrained_revision", "backbone_weights"),
    *("dropout", "kl_weight", "do_mask_loss_for_padding", "gradient_checkpointing"),
    *("n_action_steps", "temporal_ensemble_coeff", "num_inference_steps", "noise_scheduler_type"),
    *("drop_n_last_frames", "compile_model", "compile_mode"),
    *("noise_draws_per_sample", "crop_per_sample", "exact"),
}
"""Settings of policies that the meaning of their weights does not depend on."""
FREE_BEGINNINGS = ("optimizer_", "scheduler_")

Changes = dict[str, tuple[Any, Any]]  # Values before and now, by flag.


def changes_since(checkpoint: Path, config: TrainConfig) -> Changes:
    """Compare with the config of a checkpoint; empty if manyhands did not write it."""
    file = checkpoint / TRAINING_STATE / OWN_CONFIG
    if not file.is_file():
        return {}
    before = dict(_flat(json.loads(file.read_text(encoding="utf-8"))))
    now = dict(_flat(json.loads(to_json(with_absolute_paths(config)))))
    start_only = tuple(f"{name}." for name in START_ONLY)
    return {
        name: (before.get(name), now.get(name))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name) and not f"{name}.".startswith(start_only)
    }


def fixed_change_faults(changes: Changes) -> Iterator[str]:
    """Yield the changed flags that cannot change when resuming."""
    before, now = changes.get("policy.type", (None, None))
    if before != now:
        # Without a type, the fault of the policy is another one.
        if now is not None:
            yield (
                f"--policy.type={now} cannot change when resuming: the run trains {before}. "
                "Remove it, or start a new run with another --output_dir"
            )
        return
    for name, (before, now) in changes.items():
        section, _, own = name.partition(".")
        own = own.partition(".")[0]
        is_fixed = own not in FREE and not own.startswith(FREE_BEGINNINGS)
        if section == "peft" or (section == "policy" and is_fixed):
            yield (
                f"--{name}={now} cannot change when resuming: the weights were trained with "
                f"{before}. Remove it, or start a new run with --policy.path"
            )


def change_lines(changes: Changes) -> list[str]:
    """Format changes for the log."""
    return [
        f"changed since the checkpoint: --{name} from {old} to {new}"
        for name, (old, new) in changes.items()
    ]


def _flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
