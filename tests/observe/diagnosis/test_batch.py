"""Flags for the batch of a run depend on what it follows from."""

import re
from typing import Any

import pytest
from diagnosis_cases import RUN

from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig
from manyhands.observe.diagnosis.batch import (
    SAME,
    larger_micro_batch,
    less_memory_per_sample,
    smaller_micro_batch,
)
from manyhands.observe.diagnosis.history import History

GROWS = "the effective batch grows from"
KNOWN = {flag.name for flag in flags_of(TrainConfig)}
KNOWN |= {"policy.gradient_checkpointing"}


def run_with(batch: tuple[int, int, int], **settings: Any) -> History:
    """A run with samples per micro-batch, processes and micro-batches."""
    size, processes, parts = batch
    facts = {"per_process": size, "processes": processes, "accumulation": parts}
    facts |= {"effective": size * processes * parts}
    return History(RUN | {"batch": facts, "config": RUN["config"] | settings}, [], [])


def assert_flags_exist(text: str) -> None:
    assert set(re.findall(r"--([a-z_.]+[a-z])", text)) <= KNOWN


@pytest.mark.parametrize(
    ("batch", "settings", "flags", "factor", "consequence"),
    [
        ((8, 2, 1), {}, "--batch_size=16", 2, f"{GROWS} 16 to 32"),
        ((64, 1, 1), {"global_batch_size": 64}, "--global_batch_size=128", 2, f"{GROWS} 64 to 128"),
        (
            (16, 4, 1),
            {"global_batch_size": 64, "batch_size": 16},
            "--batch_size=32 --global_batch_size=128",
            2,
            f"{GROWS} 64 to 128",
        ),
        ((8, 2, 4), {"global_batch_size": 64, "batch_size": 8}, "--batch_size=16", 2, SAME),
        ((8, 1, 3), {"global_batch_size": 24, "batch_size": 8}, "--batch_size=16", 2, SAME),
        (
            (8, 2, 4),
            {"batch_size": 8},
            "--batch_size=16 --accelerator.gradient_accumulation.steps=2",
            2,
            SAME,
        ),
        (
            (8, 1, 3),
            {"batch_size": 8},
            "--batch_size=24 --accelerator.gradient_accumulation.steps=1",
            3,
            SAME,
        ),
    ],
)
def test_a_larger_micro_batch_says_whether_the_effective_batch_changes(
    batch, settings, flags, factor, consequence
):
    change = larger_micro_batch(run_with(batch, **settings))
    assert change == (flags, factor, consequence)
    assert_flags_exist(flags)


@pytest.mark.parametrize(
    ("batch", "settings", "flags"),
    [
        ((8, 2, 1), {}, "--batch_size=4 --global_batch_size=16"),
        ((3, 1, 1), {}, "--batch_size=2 --global_batch_size=3"),
        ((8, 1, 2), {"global_batch_size": 16}, "--batch_size=4 --global_batch_size=16"),
        ((6, 1, 2), {}, "--batch_size=3 --accelerator.gradient_accumulation.steps=4"),
        ((3, 1, 2), {}, "--batch_size=1 --accelerator.gradient_accumulation.steps=6"),
    ],
)
def test_a_smaller_micro_batch_keeps_the_effective_batch(batch, settings, flags):
    assert smaller_micro_batch(run_with(batch, **settings)) == flags
    assert_flags_exist(flags)


def test_a_single_sample_needs_other_remedies_than_a_smaller_batch():
    plain = run_with((1, 1, 1))
    assert less_memory_per_sample(plain) == "Use a smaller policy or a larger GPU"
    run = run_with((1, 2, 1), policy={"gradient_checkpointing": False})
    facts = {"strategy": "DDP", "precision": "float32 with TF32 matmul"}
    facts |= {"loading": {"num_workers": 1, "frame_cache": {"where": "off"}}}
    remedy = less_memory_per_sample(History(run.run | facts, [], []))
    for flag in ("gradient_checkpointing=true", "bf16", "dp_shard=-1", "image_size"):
        assert flag in remedy
    assert_flags_exist(remedy)
    sharded = {"strategy": "FSDP2", "precision": "bfloat16 autocast, weights in float32"}
    remedy = less_memory_per_sample(History(run.run | facts | sharded, [], []))
    assert "dp_shard" not in remedy and "bf16" not in remedy
