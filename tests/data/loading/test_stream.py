"""Batches by position, rank and loader processes."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import DEADLINE_S, are_gone, is_alive, loader_processes
from synthetic import Numbers, Trouble

from manyhands.data.batches import BatchSource, read_batch
from manyhands.data.dataset import open_dataset
from manyhands.data.loading import forkserver as server
from manyhands.data.loading.stream import (
    BatchSplit,
    LoaderOptions,
    SampleStream,
    resolve_num_slots,
    resolve_num_workers,
)
from manyhands.data.order import SampleOrder
from manyhands.errors import DatasetError, EnvironmentFault
from manyhands.launch.helper_process import ORPHAN_CHECK_S
from manyhands.types import Batch

WINDOWS = {"observation.images.top": [-1, 0], "action": [0, 1, 2]}
NUM_SAMPLES = 10


def make_stream(
    split: BatchSplit,
    num_workers: int = 0,
    context: str = "fork",
    source: BatchSource | None = None,
) -> SampleStream:
    order = SampleOrder(np.array([[0, NUM_SAMPLES]]), seed=3)
    loading = LoaderOptions(
        num_workers=num_workers, prefetch_factor=2, multiprocessing_context=context
    )
    return SampleStream(source or Numbers(NUM_SAMPLES), order, split, loading)


def equal(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[key], other[key]) if torch.is_tensor(one[key]) else one[key] == other[key]
        for key in one
    )


def all_equal(ones: list[Batch], others: list[Batch]) -> bool:
    return all(equal(one, other) for one, other in zip(ones, others, strict=True))


def read_away(batches: Iterator[Batch], num_batches: int) -> None:
    deque(islice(batches, num_batches), maxlen=0)


@settings(max_examples=25)
@given(num_ranks=st.integers(1, 4), beyond=st.integers(0, 9), start=st.integers(0, 40))
def test_ranks_together_read_what_one_rank_would(num_ranks, beyond, start):
    samples_per_step = num_ranks + beyond
    whole = make_stream(BatchSplit(0, 1, samples_per_step)).starting_at(start)
    parts = [
        make_stream(BatchSplit(rank, num_ranks, samples_per_step)).starting_at(start)
        for rank in range(num_ranks)
    ]
    for _ in range(3):
        together = torch.cat([next(part)["index"] for part in parts])
        assert torch.equal(together, next(whole)["index"])


def test_a_share_is_told_with_its_largest_parts():
    shares = [BatchSplit(rank, 3, 11, num_micro_batches=2) for rank in range(3)]
    assert [split.own for split in shares] == [slice(0, 4), slice(4, 8), slice(8, 11)]
    assert [split.samples_per_rank for split in shares] == [4, 4, 3]
    assert {(split.most_per_rank, split.micro_batch_size) for split in shares} == {(4, 2)}


@pytest.mark.process
@pytest.mark.parametrize(
    ("context", "counts"), [("fork", (1, 2, 5)), ("forkserver", (1, 2, 5)), ("spawn", (2,))]
)
def test_batches_are_the_same_for_any_number_of_workers_and_no_process_stays(context, counts):
    split = BatchSplit(1, 2, 7)
    expected = list(islice(make_stream(split).starting_at(5), 12))
    for num_workers in counts:
        batches = make_stream(split, num_workers, context).starting_at(5)
        workers = loader_processes()
        assert len(workers) == num_workers
        assert all_equal(list(islice(batches, 12)), expected)
        batches.close()
        assert are_gone(workers)


@pytest.mark.process
@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_sample_is_read_once_per_epoch(num_ranks, num_workers):
    streams = [
        make_stream(BatchSplit(rank, num_ranks, 5 * num_ranks), num_workers).starting_at(0)
        for rank in range(num_ranks)
    ]
    steps = [[next(stream)["index"] for stream in streams] for _ in range(2 * num_ranks)]
    drawn = torch.cat([rows for step in steps for rows in step]).view(-1, NUM_SAMPLES)
    assert torch.equal(drawn.sort(dim=1).values, torch.arange(NUM_SAMPLES).expand_as(drawn))


@pytest.mark.process
@pytest.mark.parametrize("num_workers", [0, 2])
def test_starting_anywhere_equals_skipping(num_workers):
    stream = make_stream(BatchSplit(1, 2, 7), num_workers)
    whole = list(islice(stream.starting_at(0), 8))
    for skipped in (1, 3, 7):
        rest = stream.starting_at(skipped * stream.split.samples_per_step)
        assert all_equal(list(islice(rest, 8 - skipped)), whole[skipped:])


@pytest.mark.process
@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("length", [0, 1, 4, 9])
def test_given_rows_are_read_once_in_their_order(num_workers, length):
    rows = np.arange(20)[::-1][:length]
    batches = list(make_stream(BatchSplit(0, 1, 2), num_workers).batches_over(rows, 4))
    assert [len(batch["task"]) for batch in batches] == [4] * (length // 4) + [length % 4] * (
        length % 4 > 0
    )
    for start, batch in zip(range(0, length, 4), batches, strict=True):
        assert equal(batch, read_batch(Numbers(), rows[start : start + 4]))
    assert loader_processes() == []


@pytest.mark.process
def test_no_more_workers_start_than_there_are_batches():
    batches = make_stream(BatchSplit(0, 1, 2), 5).batches_over(np.arange(5), 3)
    assert len(loader_processes()) == 2
    batches.close()


@pytest.mark.process
def test_batches_that_are_kept_stay_as_they_are():
    split = BatchSplit(0, 1, 4)
    kept = list(islice(make_stream(split, 2).starting_at(0), 30))
    assert all_equal(kept, list(islice(make_stream(split).starting_at(0), 30)))


@pytest.mark.process
def test_processes_end_with_an_iterator_that_nobody_holds():
    for num_read in (0, 1):
        batches = make_stream(BatchSplit(0, 1, 2), 2).starting_at(0)
        workers = loader_processes()
        assert len(workers) == 2
        read_away(batches, num_read)
        del batches
        gc.collect()
        assert are_gone(workers)


@pytest.mark.process
def test_processes_end_when_the_reader_is_interrupted():
    batches = make_stream(BatchSplit(0, 1, 2), 2).starting_at(0)
    next(batches)
    workers = loader_processes()
    with pytest.raises(KeyboardInterrupt):
        batches.throw(KeyboardInterrupt)
    assert are_gone(workers)
    assert next(batches, None) is None


@pytest.mark.process
def test_a_killed_worker_ends_the_stream_at_once_and_says_so():
    batches = make_stream(BatchSplit(0, 1, 2), 2).starting_at(0)
    next(batches)
    workers = loader_processes()
    workers[1].kill()
    began = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"process 1 of 2.*Killed.*out of memory"):
        list(islice(batches, 20))
    assert time.monotonic() - began < DEADLINE_S
    assert are_gone(workers)


@pytest.mark.process
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_users_mistake_arrives_whole_and_ends_the_processes(num_workers):
    batches = make_stream(
        BatchSplit(0, 1, 2), num_workers, source=Trouble(kind="damaged", row=4)
    ).starting_at(0)
    workers = loader_processes()
    with pytest.raises(DatasetError) as caught:
        list(islice(batches, 5))
    assert str(caught.value) == "row 4 is damaged; see\n  its file"
    assert are_gone(workers)


def resident_bytes(processes: list[psutil.Process]) -> int:
    return sum(process.memory_info().rss for process in processes)


@pytest.mark.process
def test_memory_stays_flat_over_thousands_of_batches():
    batches = make_stream(BatchSplit(0, 1, 64), 2, source=Numbers(side=12)).starting_at(0)
    read_away(batches, 300)
    processes = [psutil.Process(), *loader_processes()]
    sizes, num_fds = [resident_bytes(processes)], processes[0].num_fds()
    for _ in range(3):
        read_away(batches, 1000)
        sizes.append(resident_bytes(processes))
    # Together, 1000 batches take more than twenty times as much. What other tests have left in
    # this process may grow once; a leak grows each time.
    assert min(after - before for before, after in pairwise(sizes)) < 2**20
    assert processes[0].num_fds() == num_fds
    batches.close()


@pytest.mark.process
@pytest.mark.parametrize(("method", "number"), [("fork", 2), ("forkserver", 2), ("spawn", 1)])
def test_a_dataset_is_read_the_same_by_loader_processes(plain_root, method, number):
    dataset = open_dataset(root=plain_root, windows=WINDOWS)
    order = SampleOrder(dataset.episode_bounds, seed=3)

    def read(num_workers: int) -> list[Batch]:
        loading = LoaderOptions(num_workers=num_workers, multiprocessing_context=method)
        stream = SampleStream(dataset, order, BatchSplit(0, 2, 7), loading)
        return list(islice(stream.starting_at(5), 6))

    # This process has videos open and decoders under way when the others start.
    expected = read(0)
    assert all_equal(read(number), expected)
    rows = order.indices(5, 9)
    assert equal(expected[0], dataset.batch(rows))


@pytest.mark.process
def test_a_damaged_dataset_is_told_of_by_file(damaged_root):
    (path,) = (damaged_root / "videos").rglob("chunk-001/*.mp4")
    dataset = open_dataset(root=damaged_root, windows=WINDOWS)
    order = SampleOrder(dataset.episode_bounds, seed=3)
    path.write_bytes(b"")
    stream = SampleStream(dataset, order, BatchSplit(0, 1, 5), LoaderOptions(num_workers=1))
    with pytest.raises(DatasetError) as caught:
        list(islice(stream.starting_at(0), 4))
    assert str(caught.value).startswith(f"{path} is empty")
    assert "Traceback" not in str(caught.value)


@pytest.mark.process
@pytest.mark.parametrize("num_workers", [0, 1])
def test_loading_leaves_the_global_generator_alone(num_workers):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    next(make_stream(BatchSplit(0, 1, 2), num_workers).starting_at(0))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"),
    [(1, 1, 0), (2, 1, 1), (16, 1, 15), (64, 1, 16), (64, 8, 7), (8, 4, 1), (4, 4, 0), (2, 8, 0)],
)
def test_workers_are_chosen_so_that_each_rank_keeps_a_core(monkeypatch, cores, ranks, expected):
    monkeypatch.setattr(server, "num_cores", lambda: cores)
    assert resolve_num_workers(LoaderOptions(num_ranks_per_node=ranks)) == expected
    assert resolve_num_workers(LoaderOptions(num_workers=3, num_ranks_per_node=ranks)) == 3


@pytest.mark.parametrize(
    ("max_ram_bytes", "num_workers", "expected"),
    [
        (None, 4, 16),
        (10**9, 4, 16),
        (4 * 8 * 1000, 4, 8),
        (4 * 11 * 1000, 4, 8),
        (4000, 4, 4),
        (0, 4, 4),
        (None, 0, 3),
        (0, 1, 3),
    ],
)
def test_less_is_read_ahead_where_memory_is_short(max_ram_bytes, num_workers, expected):
    loading = LoaderOptions(prefetch_factor=4, max_ram_bytes=max_ram_bytes)
    assert resolve_num_slots(loading, num_workers, bytes_per_batch=1000) == expected


PROGRAM = f"""
import itertools, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
from processes import loader_processes
from synthetic import Trouble
from manyhands.data.loading.stream import LoaderOptions, SampleStream, BatchSplit
from manyhands.data.order import SampleOrder

if __name__ == "__main__":
    order = SampleOrder(np.array([[0, 10]]), seed=0)
    loading = LoaderOptions(num_workers=2, multiprocessing_context=sys.argv[1])
    source = Trouble(kind="stuck", row=999)
    stream = SampleStream(source, order, BatchSplit(0, 1, 2), loading)
    batches = stream.batches_over(np.array([*range(80), *[999] * 20]), 2)
    received = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, lambda number, _: received.append(number))
    for line in itertools.chain(["begin"], sys.stdin):
        if line.strip() == "end":
            sys.exit(7)
        num_read = len(list(itertools.islice(batches, 20)))
        print(len(received), num_read, *(each.pid for each in loader_processes()), flush=True)
"""


class Program:
    """A rank in a session of its own that reads twenty batches with two workers when asked.

    Twice: the workers are busy without end then.
    """

    def __init__(self, folder: Path, context: str) -> None:
        file = folder / "program.py"
        file.write_text(PROGRAM)
        self._process = subprocess.Popen(
            [sys.executable, str(file), context],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.workers = [psutil.Process(pid) for pid in self.told()[2:]]

    def ask(self, word: str) -> None:
        print(word, file=self._process.stdin, flush=True)

    def told(self) -> list[int]:
        """Signals received so far, batches read, loader processes."""
        return [int(word) for word in self._process.stdout.readline().split()]

    def end(self) -> tuple[int, str]:
        """Exit code and complaints."""
        _, errors = self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode, errors


@pytest.mark.process
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_workers_survive_signals_to_the_whole_job_but_never_their_rank(context, tmp_path):
    program = Program(tmp_path, context)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        os.killpg(program.pid, number)
    time.sleep(3 * ORPHAN_CHECK_S)
    program.ask("go on")
    assert program.told()[:2] == [4, 20]
    assert len(program.workers) == 2 and all(map(is_alive, program.workers))
    os.kill(program.pid, signal.SIGKILL)
    assert are_gone(program.workers)
    assert program.end() == (-signal.SIGKILL, "")


@pytest.mark.process
def test_a_program_that_ends_does_not_wait_for_its_workers(tmp_path):
    program = Program(tmp_path, "forkserver")
    program.ask("end")
    assert program.end() == (7, "")
    assert are_gone(program.workers)
