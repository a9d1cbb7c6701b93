"""Degrees, and how weights and gradients travel."""

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.sections.execution import DdpConfig, FsdpConfig, ParallelismConfig
from manyhands.errors import ConfigError

BASE = ["--dataset.root=data", "--policy.type=act"]


def test_nothing_is_sharded_unless_asked():
    config = read_train_config(BASE)
    assert config.parallelism == ParallelismConfig(dp_replicate=None, dp_shard=1)
    assert config.accelerator.fsdp == FsdpConfig(reshard_after_forward=True, cpu_offload=False)
    assert config.accelerator.ddp == DdpConfig(gradient_as_bucket_view=True)


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--parallelism.dp_replicate=0", "at least 1, or null"),
        ("--parallelism.dp_shard=0", "at least 1, or -1 for all"),
        ("--parallelism.dp_shard=-2", "at least 1, or -1 for all"),
        ("--parallelism.gpus_per_process=0", "at least 1"),
        ("--accelerator.ddp.find_unused_parameters=true", "slows every step"),
        ("--accelerator.ddp.gradient_compression=int8", "not one of none, bf16"),
    ],
)
def test_what_cannot_be_is_refused_by_name(flag, told):
    with pytest.raises(ConfigError) as caught:
        read_train_config([*BASE, flag])
    (fault,) = caught.value.faults
    assert fault.startswith(flag)
    assert told in fault


def test_flags_are_read():
    flags = ["--parallelism.dp_replicate=2", "--parallelism.dp_shard=-1"]
    details = ["--accelerator.fsdp.wrap_modules=[EncoderLayer]"]
    config = read_train_config([*BASE, *flags, *details])
    assert config.parallelism == ParallelismConfig(dp_replicate=2, dp_shard=-1)
    assert config.accelerator.fsdp.wrap_modules == ["EncoderLayer"]
