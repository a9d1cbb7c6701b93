"""What is said when a device has no room."""

import sys

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import UserError
from manyhands.parallel.strategy import Strategy
from manyhands.parallel.world import joined_world
from manyhands.training.health.out_of_memory import explaining_oom, is_out_of_memory, oom_message

HUGE = 1 << 46


@pytest.fixture
def world():
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
        yield world


def test_a_failed_allocation_becomes_a_mistake_with_numbers_and_flags(world):
    with pytest.raises(UserError) as raised, explaining_oom(BatchSplit(0, 1, 16, 2), world):
        torch.empty(HUGE)
    first, numbers, _, *remedies = str(raised.value).splitlines()
    assert first.startswith("out of memory in a training step on cpu: ")
    assert str(4 * HUGE) in first
    assert "micro-batches per process and step: 2 of 8 samples; precision: no" in numbers
    assert numbers.count("GiB") >= 2
    assert [line.split()[0] for line in remedies[:3]] == [
        "--batch_size=4",
        "--find_batch_size=true",
        "--accelerator.mixed_precision=bf16",
    ]
    assert "--global_batch_size=16" in remedies[0]


def test_remedies_are_those_that_are_left(world):
    world.size, world.precision = 4, "bf16"
    told = oom_message(BatchSplit(0, 4, 4), world, "full")
    assert "--batch_size" not in told and "bf16\n" not in told
    assert "--parallelism.dp_shard=-1" in told
    world.strategy = Strategy(num_shards=4)
    told = oom_message(BatchSplit(0, 4, 4), world, "full")
    assert "--parallelism.dp_shard" not in told
    assert "--accelerator.fsdp.cpu_offload=true" in told


def test_other_errors_pass_as_they_are(world):
    with pytest.raises(RuntimeError, match="shapes"), explaining_oom(BatchSplit(0, 1, 1), world):
        raise RuntimeError("shapes do not match")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate"),
    ],
)
def test_every_way_to_say_so_is_understood(error):
    assert is_out_of_memory(error)


@pytest.mark.process
def test_only_the_rank_without_room_speaks_and_all_leave(command, greedy, tmp_path, monkeypatch):
    monkeypatch.setenv("ROOM_0", "8")
    flags = [*greedy, f"--output_dir={tmp_path / 'run'}", "--launch.num_processes=2"]
    printed = command.run([sys.executable, "-m", "manyhands", "train", *flags], code=2)
    assert printed.count("manyhands rank 1: out of memory in a training step") == 1
    assert printed.count("--batch_size=4 --global_batch_size=16") == 1
    assert "Traceback" not in printed
