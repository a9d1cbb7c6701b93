"""Optimizers and schedules by LeRobot's names and defaults."""

from manyhands.config.sections.optim import (
    OPTIMIZER_TYPES,
    SCHEDULER_TYPES,
    AdamConfig,
    AdamWConfig,
)


def test_types_are_lerobots():
    assert list(OPTIMIZER_TYPES) == ["adam", "adamw", "sgd"]
    assert list(SCHEDULER_TYPES) == [
        "diffuser",
        "constant_with_warmup",
        "cosine_annealing_with_warmup",
        "cosine_decay_with_warmup",
    ]


def test_defaults_are_lerobots():
    assert (AdamConfig().lr, AdamConfig().weight_decay) == (1e-3, 0.0)
    assert (AdamWConfig().weight_decay, AdamWConfig().grad_clip_norm) == (1e-2, 10.0)
