"""LeRobot settings that do not exist here.

A LeRobot command line or `train_config.json` carries them, mostly at their defaults. At the default
nothing was asked for, so they pass; any other value is refused by name, never ignored.
"""

from typing import Any

from manyhands.config.schema import RawText, Tree, decode_value

AT_DEFAULT: dict[str, Any] = {
    "env": None,
    "reward_model": None,
    "env_eval_freq": 20_000,
    "eval_freq": 20_000,
    "eval_steps": 0,
    "max_eval_samples": 0,
    "tolerance_s": 1e-4,
    "persistent_workers": True,
    "checkpoint_format": "safetensors",
    "save_checkpoint_to_hub": False,
    "sample_weighting": None,
    "rename_map": {},
    "peft": None,
    "checkpoint_path": None,
    "dataset.repo_type": "dataset",
    "dataset.exclude_episodes": None,
    "dataset.image_transforms.enable": False,
    "dataset.return_uint8": False,
    "dataset.depth_output_unit": "mm",
    "dataset.streaming": False,
    "dataset.eval_split": 0.0,
    "job.target": None,
    "ema.enable": False,
    "wandb.enable": False,
    "parallelism.dp_replicate": 1,
    "parallelism.dp_shard": 1,
    "parallelism.cfg_parallel": 1,
    "parallelism.context_parallel.ring_degree": 1,
    "parallelism.context_parallel.ulysses_degree": 1,
    "accelerator.compile.enabled": False,
    "accelerator.activation_checkpointing.mode": None,
}

WITHOUT_EFFECT = (
    "accelerator.activation_checkpointing.",
    "accelerator.compile.",
    "accelerator.ddp.",
    "accelerator.fsdp.",
    "dataset.image_transforms.",
    "dataset.video_backend",
    "ema.",
    "eval.",
    "job.",
    "wandb.",
)
"""Details of the features above: they say nothing while the feature is off."""


def drop_foreign(tree: Tree, faults: list[str], prefix: str = "") -> Tree:
    """The tree without LeRobot's own settings; those that ask for something become faults."""
    kept: Tree = {}
    for name, value in tree.items():
        full = f"{prefix}{name}"
        if full in AT_DEFAULT:
            if not _is_default(value, AT_DEFAULT[full]):
                faults.append(f"--{full}={value} is a LeRobot setting that does not exist here")
        elif full.startswith(WITHOUT_EFFECT):
            continue
        elif isinstance(value, dict):
            inner = drop_foreign(value, faults, f"{full}.")
            if inner or not value or not _is_foreign_section(full):
                kept[name] = inner
        else:
            kept[name] = value
    return kept


def _is_foreign_section(name: str) -> bool:
    return any(known.startswith(f"{name}.") for known in (*AT_DEFAULT, *WITHOUT_EFFECT))


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, RawText):
        value = decode_value(Any, value)
    if isinstance(default, float):
        value = _number(value)
    return bool(value == default)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
