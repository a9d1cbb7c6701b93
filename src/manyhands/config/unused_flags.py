"""Flags that have no effect in a configuration; the start banner lists them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from manyhands.config.schema.decoding import encode
from manyhands.config.train import TrainConfig


@dataclass(frozen=True)
class UnusedFlags:
    """Flags without effect in some runs, and why."""

    flags: tuple[str, ...]
    reason: str
    are_unused: Callable[[TrainConfig], bool]

    def notes(self, config: TrainConfig) -> Iterator[str]:
        """Yield a note for each that differs from its default, in a run that does not use it."""
        if self.are_unused(config):
            yield from unused_notes(config, self.flags, self.reason)


RULES = (
    UnusedFlags(
        ("max_eval_samples",), "without --eval_steps", lambda config: config.eval_steps == 0
    ),
    UnusedFlags(
        ("dataset.max_bad",),
        "without --dataset.on_bad=skip",
        lambda config: config.dataset.on_bad != "skip",
    ),
    UnusedFlags(
        ("save_freq", "keep_last", "keep_every", "keep_best"),
        "with --save_checkpoint=false",
        lambda config: not config.save_checkpoint,
    ),
    UnusedFlags(
        ("prefetch_factor", "dataloader_multiprocessing_context"),
        "with --num_workers=0",
        lambda config: config.num_workers == 0,
    ),
    UnusedFlags(
        ("cache.encoding", "cache.max_disk"),
        "with --cache.mode=off",
        lambda config: config.cache.mode == "off",
    ),
    UnusedFlags(
        ("cache.max_disk",), "with --cache.mode=ram", lambda config: config.cache.mode == "ram"
    ),
    UnusedFlags(
        ("step.compile_min_left_s",),
        "without --step.mode=auto",
        lambda config: config.step.mode != "auto",
    ),
    UnusedFlags(
        ("wandb.project", "wandb.entity", "wandb.notes", "wandb.run_id", "wandb.mode"),
        "without --wandb.enable=true",
        lambda config: not config.wandb.enable,
    ),
    UnusedFlags(
        ("tensorboard.folder",),
        "without --tensorboard.enable=true",
        lambda config: not config.tensorboard.enable,
    ),
    UnusedFlags(
        ("trackio.project", "trackio.space_id"),
        "without --trackio.enable=true",
        lambda config: not config.trackio.enable,
    ),
)
DEFAULTS = TrainConfig()


def unused_flag_notes(config: TrainConfig) -> list[str]:
    """Notes on flags without effect, whatever the machine and the data."""
    notes = [note for rule in RULES for note in rule.notes(config)]
    is_measured = config.eval_steps > 0 or config.eval.open_loop
    if config.dataset.eval_split > 0 and not is_measured and config.keep_best in (None, "success"):
        notes.append(
            f"NOTE: --dataset.eval_split={config.dataset.eval_split} holds episodes out of "
            "training, but nothing evaluates them. Set --eval_steps"
        )
    return notes


def unused_notes(config: TrainConfig, flags: tuple[str, ...], reason: str) -> Iterator[str]:
    """Yield a note for each flag that differs from its default."""
    for flag in flags:
        value = attrgetter(flag)(config)
        if value != attrgetter(flag)(DEFAULTS):
            text = value if isinstance(value, str) else json.dumps(encode(value))
            yield f"NOTE: --{flag}={text} has no effect {reason}"
