"""LeRobot settings that manyhands does not support.

A LeRobot command line or `train_config.json` contains them, mostly at their defaults. Defaults
pass; any other value is rejected with an error that names it.
"""

from typing import Any

from manyhands.config.schema.decoding import RawText, Tree, decode_value

REJECTION = "--{} is not supported by manyhands"

AT_DEFAULT: dict[str, Any] = {
    "reward_model": None,
    "tolerance_s": 1e-4,
    "persistent_workers": True,
    "save_checkpoint_to_hub": False,
    "sample_weighting": None,
    "checkpoint_path": None,
    "dataset.repo_type": "dataset",
    "dataset.return_uint8": False,
    "dataset.streaming": False,
    "job.target": None,
    "parallelism.cfg_parallel": 1,
    "parallelism.context_parallel.ring_degree": 1,
    "parallelism.context_parallel.ulysses_degree": 1,
    "accelerator.compile.enabled": False,
    "accelerator.activation_checkpointing.mode": None,
    "accelerator.fsdp.ignored_modules": None,
    "accelerator.fsdp.min_num_params": None,
}

INSTEAD = {
    "accelerator.activation_checkpointing.": "use --policy.gradient_checkpointing=true",
    "accelerator.compile.": "use --step.mode=compile",
    "accelerator.fsdp.": "use --accelerator.fsdp.wrap_modules",
    "checkpoint_path": "use --resume",
    "dataset.return_uint8": "remove it: frames are always loaded as uint8",
    "dataset.streaming": "remove it: frames are decoded on demand from a copy on disk",
    "dataset.video_backend": "remove it: PyAV decodes all videos",
    "job.": "use manyhands launch skypilot",
    "persistent_workers": "remove it: loader processes always persist",
    "sample_weighting": "use --dataset.mix, which weights datasets",
    "save_checkpoint_to_hub": "use --policy.push_to_hub=true, which uploads the last checkpoint",
    "tolerance_s": "remove it: manyhands doctor checks timestamps",
}
"""What to do about a setting, by its beginning; all others are to be removed."""

WITHOUT_EFFECT = (
    "accelerator.activation_checkpointing.",
    "accelerator.compile.",
    "dataset.video_backend",
    "eval.recording",
    "job.",
)
"""Details of features that are off, as LeRobot's files carry them; typed, each is a request."""


def drop_unsupported(tree: Tree, faults: list[str], prefix: str = "") -> Tree:
    """Remove LeRobot's own settings from a tree; those with other values become faults."""
    kept: Tree = {}
    for name, value in tree.items():
        full = f"{prefix}{name}"
        if full in AT_DEFAULT or full.startswith(WITHOUT_EFFECT):
            faults += [_rejection(request) for request in _requests(full, value)]
        elif isinstance(value, dict) and value:
            inner = drop_unsupported(value, faults, f"{full}.")
            kept |= {name: inner} if inner else {}
        else:
            kept[name] = value
    return kept


def _rejection(request: str) -> str:
    advice = (advice for name, advice in INSTEAD.items() if request.startswith(name))
    return f"{REJECTION.format(request)}; {next(advice, 'remove it')}"


def _requests(name: str, value: Any) -> list[str]:
    """Requests of an unsupported setting: a non-default value, or a detail set by flag."""
    if name in AT_DEFAULT:
        return [] if _is_default(value, AT_DEFAULT[name]) else [f"{name}={value}"]
    if isinstance(value, dict):
        return [
            request for key, inner in value.items() for request in _requests(f"{name}.{key}", inner)
        ]
    return [f"{name}={value}"] if isinstance(value, RawText) else []


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
