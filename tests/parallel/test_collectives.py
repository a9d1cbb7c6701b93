"""Tensors that ranks exchange within a pass."""

import _thread
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.sections.execution import DdpConfig
from manyhands.config.train import TrainConfig
from manyhands.launch.workers import run_workers
from manyhands.parallel.collectives import (
    all_gather_rows,
    all_reduce_sum,
    check_thread,
    is_local,
    num_ranks,
    without_communication,
)
from manyhands.parallel.engine import build_engine
from manyhands.parallel.world import World, joined_world

EXCHANGE = """
import sys, torch
import torch.distributed as dist
from manyhands.parallel.collectives import all_gather_rows, all_reduce_sum, num_ranks
from manyhands.parallel.collectives import without_communication

dist.init_process_group("gloo")
own = torch.arange(3.0) + 10 * dist.get_rank()
said = [torch.tensor(num_ranks()), all_gather_rows(own), all_reduce_sum(own), own]
with without_communication():
    said += [torch.tensor(num_ranks()), all_gather_rows(own), all_reduce_sum(own)]
said.append(all_reduce_sum(own))
torch.save(said, f"{sys.argv[1]}/{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


def in_thread(work: Callable[[], object]) -> object:
    """What work returns in a thread of its own; raises what it raises."""
    with ThreadPoolExecutor(1, thread_name_prefix="saving") as threads:
        return threads.submit(work).result()


COLLECTIVES: dict[str, Callable[[World], object]] = {
    "gather": lambda world: world.gather(1),
    "any": lambda world: world.any(True),
    "broadcast": lambda world: world.broadcast(1),
    "sum": lambda world: world.sum(torch.ones(1)),
    "on_main": lambda world: world.on_main(lambda: 1),
    "is_stopping": lambda world: world.is_stopping(),
    "step": lambda world: [*build_engine(world, 1, DdpConfig()).micro_batches({})],
    "all_gather_rows": lambda _: all_gather_rows(torch.ones(1)),
    "all_reduce_sum": lambda _: all_reduce_sum(torch.ones(1)),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_belongs_to_the_thread_that_joined(name):
    with (
        joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world,
        pytest.raises(RuntimeError, match="thread 'saving_0' called a collective, which only"),
    ):
        in_thread(lambda: COLLECTIVES[name](world))


def test_a_run_may_live_in_any_thread():
    def run() -> list[int]:
        with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:
            with pytest.raises(RuntimeError, match="which only 'saving_0' may"):
                in_thread(lambda: world.gather(1))
            return world.gather(1)

    assert in_thread(run) == [1]
    check_thread()


def test_threads_of_autograd_are_those_of_whoever_waits_for_them():
    called = []

    def alien() -> None:
        check_thread()
        called.append(threading.current_thread())

    # Python knows threads that it did not make as dummies.
    _thread.start_new_thread(alien, ())
    deadline = time.monotonic() + 10
    while not called and time.monotonic() < deadline:
        time.sleep(0.01)
    assert called and called[0] is not threading.main_thread()


def test_one_process_is_one_rank():
    assert num_ranks() == 1


def test_a_rank_is_apart_until_it_is_done_or_has_failed():
    with pytest.raises(KeyError), without_communication():
        assert is_local()
        raise KeyError
    assert not is_local()


@pytest.mark.process
def test_ranks_see_all_tensors_and_keep_their_own(tmp_path: Path):
    assert run_workers(2, [sys.executable, "-c", EXCHANGE, str(tmp_path)]).code == 0
    for rank in range(2):
        said = [value.tolist() for value in torch.load(tmp_path / f"{rank}.pt")]
        both = [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
        assert said[:4] == [2, both, [10.0, 12.0, 14.0], both[rank]]
        # Apart from the others, a rank has its own row in place of theirs.
        alone = [2, [both[rank]] * 2, both[rank]]
        assert said[4:] == [*alone, [10.0, 12.0, 14.0]]
