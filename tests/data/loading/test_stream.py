"""Batches by position, rank and loader processes."""

import signal
import subprocess
import sys
import time
from itertools import islice

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.data.loading import stream as stream_module
from manyhands.data.dataset import open_dataset
from manyhands.data.loading.stream import Loading, SampleStream, Share, resolve_num_workers
from manyhands.data.order import SampleOrder
from manyhands.errors import DatasetError

WINDOWS = {"observation.images.top": [-1, 0], "action": [0, 1, 2]}


def make_stream(
    root, share: Share, num_workers: int = 0, context: str = "forkserver"
) -> SampleStream:
    dataset = open_dataset(root=root, windows=WINDOWS)
    order = SampleOrder(dataset.episode_bounds, seed=3)
    loading = Loading(num_workers=num_workers, prefetch_factor=2, multiprocessing_context=context)
    return SampleStream(dataset, order, share, loading)


def equal(one, other) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[key], other[key]) if torch.is_tensor(one[key]) else one[key] == other[key]
        for key in one
    )


def children() -> list[psutil.Process]:
    """Loader processes, which torch gives a name of their own."""
    family = psutil.Process().children(recursive=True)
    return [child for child in family if child.name() == "pt_data_worker"]


def wait_until_gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=20)[1]


@settings(deadline=None, max_examples=15)
@given(num_ranks=st.integers(1, 4), per_rank=st.integers(1, 3), start=st.integers(0, 40))
def test_ranks_together_read_what_one_rank_would(plain_root, num_ranks, per_rank, start):
    whole = make_stream(plain_root, Share(0, 1, per_rank * num_ranks)).starting_at(start)
    parts = [
        make_stream(plain_root, Share(rank, num_ranks, per_rank)).starting_at(start)
        for rank in range(num_ranks)
    ]
    for _ in range(3):
        together = torch.cat([next(part)["index"] for part in parts])
        assert torch.equal(together, next(whole)["index"])


def test_a_stream_continues_where_another_stopped(plain_root):
    stream = make_stream(plain_root, Share(1, 2, 3))
    whole = list(islice(stream.starting_at(0), 6))
    rest = list(islice(stream.starting_at(3 * stream.share.samples_per_step), 3))
    assert all(equal(one, other) for one, other in zip(whole[3:], rest, strict=True))


@pytest.mark.process
def test_batches_are_the_same_for_any_number_of_workers_and_no_process_stays(plain_root):
    share = Share(0, 2, 4)
    expected = list(islice(make_stream(plain_root, share).starting_at(5), 5))
    for num_workers in (1, 2):
        batches = make_stream(plain_root, share, num_workers).starting_at(5)
        for batch, other in zip(expected, batches, strict=False):
            assert equal(batch, other)
        workers = children()
        assert len(workers) == num_workers
        del batches
        assert wait_until_gone(workers)


@pytest.mark.process
def test_a_fault_met_by_a_worker_arrives_with_its_own_message(damaged_root):
    (path,) = (damaged_root / "videos").rglob("chunk-001/*.mp4")
    stream = make_stream(damaged_root, Share(0, 1, 5), num_workers=1)
    path.write_bytes(b"")
    batches = stream.starting_at(0)
    with pytest.raises(DatasetError) as caught:
        next(batches)
    assert str(caught.value).startswith(f"{path} is damaged")
    assert "Traceback" not in str(caught.value)


@pytest.mark.process
@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_signals_sent_to_the_whole_job_do_not_reach_the_loader(plain_root, context):
    batches = make_stream(plain_root, Share(0, 1, 2), 1, context).starting_at(0)
    next(batches)
    (worker,) = children()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        subprocess.run(["kill", f"-{number.value}", str(worker.pid)], check=True)
    time.sleep(0.3)
    assert len(list(islice(batches, 8))) == 8
    batches.close()
    assert wait_until_gone([worker])


SCRIPT = """
import sys
from pathlib import Path
from manyhands.data.dataset import open_dataset
from manyhands.data.order import SampleOrder
from manyhands.data.loading.stream import Loading, SampleStream, Share

if __name__ == "__main__":
    dataset = open_dataset(root=Path(sys.argv[1]))
    order = SampleOrder(dataset.episode_bounds, 0)
    stream = SampleStream(dataset, order, Share(0, 1, 2), Loading(num_workers=1))
    batches = stream.starting_at(0)
    next(batches)
    raise SystemExit(7)
"""


@pytest.mark.process
def test_a_program_that_ends_does_not_wait_for_its_loader(plain_root, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(plain_root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (7, "")


def test_loading_leaves_the_global_generator_alone(plain_root):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    next(make_stream(plain_root, Share(0, 1, 2)).starting_at(0))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"),
    [(1, 1, 0), (2, 1, 1), (64, 1, 4), (8, 4, 1), (4, 4, 0), (2, 8, 0)],
)
def test_workers_are_chosen_so_that_each_rank_keeps_a_core(monkeypatch, cores, ranks, expected):
    monkeypatch.setattr(stream_module, "num_cores", lambda: cores)
    assert resolve_num_workers(Loading(num_ranks_per_node=ranks)) == expected
    assert resolve_num_workers(Loading(num_workers=3, num_ranks_per_node=ranks)) == 3


def test_every_batch_is_full(plain_root):
    batches = make_stream(plain_root, Share(0, 1, 5)).starting_at(0)
    assert [len(batch["task"]) for batch in islice(batches, 6)] == [5] * 6
    drawn = np.concatenate([batch["index"] for batch in islice(batches, 6)])
    assert set(drawn) == set(range(14))
