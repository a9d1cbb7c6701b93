"""Batches on their way from slots to where they are used."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice

import numpy as np
import pytest
import torch
from synthetic import Numbers, Trouble

from manyhands.data.loading.device_copy import MAX_COPIES, copied_ahead, copied_out, to_device
from manyhands.data.loading.leases import Lease, Leases
from manyhands.data.loading.slots import Slots
from manyhands.data.loading.workers import NoWorkers, Workers
from manyhands.errors import DatasetError
from manyhands.observe.phases import CopyTimer
from manyhands.types import Batch

NUM_SAMPLES = 2


def endless() -> Iterator[np.ndarray]:
    return (np.arange(first, first + NUM_SAMPLES) for first in count(0, NUM_SAMPLES))


class Eager(NoWorkers):
    """Reads in this process, and can do it at any time."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.is_closed = False
        self.is_late = False

    def is_ready(self) -> bool:
        return not self.is_late

    def close(self) -> None:
        self.is_closed = True


def lend(num_slots: int = 3, rows=None, source=None) -> tuple[Leases, Eager]:
    source = source or Numbers()
    slots = Slots(source.layout(NUM_SAMPLES), NUM_SAMPLES, num_slots)
    readers = Eager(source, slots)
    return Leases(rows or endless(), slots, readers), readers


class HandCopy:
    """A copy that is made when the test says so, or when somebody waits for it."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.block = torch.zeros_like(lease.block)
        self.is_made = False
        self.num_waits = 0

    def make(self) -> None:
        if not self.is_made:
            self.block.copy_(self.lease.block)
        self.is_made = True

    def is_done(self) -> bool:
        return self.is_made

    def wait(self) -> None:
        self.num_waits += not self.is_made
        self.make()

    def hand_over(self) -> Batch:
        return self.lease.batch_in(self.block)


class Copier:
    """Starts copies and keeps them."""

    def __init__(self) -> None:
        self.copies: list[HandCopy] = []

    def __call__(self, lease: Lease) -> HandCopy:
        self.copies.append(HandCopy(lease))
        return self.copies[-1]

    def make_all(self) -> None:
        for copy in self.copies:
            copy.make()


def first_rows(batches: list[Batch]) -> list[int]:
    return [int(batch["index"][0]) for batch in batches]


def test_batches_out_of_their_slots_stay_as_they_are():
    leases, readers = lend(num_slots=1)
    batches = to_device(leases, torch.device("cpu"), CopyTimer())
    kept = list(islice(batches, 4))
    assert [batch["index"].tolist() for batch in kept] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert kept[3]["task"] == ["task 6", "task 7"]
    batches.close()
    assert readers.is_closed


def test_a_copy_begins_before_its_batch_is_asked_for():
    leases, _ = lend()
    copier = Copier()
    batches = copied_ahead(leases, copier)
    for number in range(3):
        next(batches)
        assert len(copier.copies) == number + 2


def test_nobody_waits_for_the_batch_after_the_next():
    leases, readers = lend()
    readers.is_late = True
    copier = Copier()
    batches = copied_ahead(leases, copier)
    for number in range(3):
        next(batches)
        assert len(copier.copies) == number + 1


def test_copies_that_are_made_in_time_are_never_waited_for():
    leases, _ = lend()
    copier = Copier()
    batches, seen = copied_ahead(leases, copier), []
    for _ in range(20):
        seen.append(next(batches))
        copier.make_all()
    assert first_rows(seen) == list(range(0, 40, 2))
    assert sum(copy.num_waits for copy in copier.copies) == 0


@pytest.mark.parametrize("num_slots", [MAX_COPIES + 1, 8])
def test_a_slot_is_not_filled_anew_before_a_late_copy_is_made(num_slots):
    leases, _ = lend(num_slots)
    copier = Copier()
    seen = list(islice(copied_ahead(leases, copier), 20))
    assert sum(copy.num_waits for copy in copier.copies) >= 20 - MAX_COPIES
    copier.make_all()
    assert first_rows(seen) == list(range(0, 40, 2))


def test_a_finite_sequence_ends_with_all_its_batches():
    for length in range(5):
        leases, readers = lend(rows=islice(endless(), length))
        batches = list(copied_ahead(leases, Copier()))
        assert first_rows(batches) == list(range(0, 2 * length, 2))
        assert readers.is_closed


def test_copies_under_way_are_finished_before_the_memory_goes():
    leases, readers = lend()
    copier = Copier()
    batches = copied_ahead(leases, copier)
    next(batches)
    batches.close()
    assert all(copy.is_done() for copy in copier.copies) and readers.is_closed
    assert next(batches, None) is None


@pytest.mark.parametrize(
    "way",
    [
        lambda leases: copied_out(leases, torch.device("cpu")),
        lambda leases: copied_ahead(leases, Copier()),
    ],
)
def test_an_error_ends_the_reading(way):
    leases, readers = lend(source=Trouble(kind="damaged", row=5))
    with pytest.raises(DatasetError, match="row 5"):
        list(way(leases))
    assert readers.is_closed


gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
PICTURES = Numbers(side=96)


@contextmanager
def on_gpu(num_workers: int, num_slots: int, pinned: bool = True) -> Iterator[Iterator[Batch]]:
    """Batches on the GPU; the row of a sample is in every one of its values."""
    slots = Slots(PICTURES.layout(NUM_SAMPLES), NUM_SAMPLES, num_slots)
    readers = NoWorkers(PICTURES, slots)
    if num_workers:
        readers = Workers(PICTURES, slots, num_workers, "forkserver")
    assert not pinned or slots.pin()
    assert slots.block(0).is_pinned() == pinned
    batches = to_device(Leases(endless(), slots, readers), torch.device("cuda"), CopyTimer())
    yield batches
    batches.close()


def keep_busy(duration_s: float) -> None:
    """Give the GPU work that takes about so long."""
    torch.cuda._sleep(int(duration_s * 1.5e9))


class TestOnAGpu:
    """What only a real device can show."""

    pytestmark = gpu

    @pytest.mark.parametrize("pinned", [True, False])
    @pytest.mark.parametrize(("num_workers", "num_slots"), [(0, 3), (1, 3), (2, 8)])
    def test_batches_hold_what_their_rows_say(self, num_workers, num_slots, pinned):
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        with on_gpu(num_workers, num_slots, pinned) as batches:
            for number, batch in enumerate(islice(batches, 500)):
                rows = torch.arange(NUM_SAMPLES, device="cuda") + number * NUM_SAMPLES
                if number % 50 == 0:
                    keep_busy(0.005)
                pictures = (rows % 251).to(torch.uint8)[:, None, None, None]
                wrong += (batch["index"] != rows).sum() + (batch["picture"] != pictures).sum()
                assert batch["task"][0] == f"task {number * NUM_SAMPLES}"
                assert all(batch[key].is_cuda for key in ("picture", "state", "is_odd"))
        assert wrong.item() == 0

    def test_batches_that_are_kept_stay_as_they_are(self):
        with on_gpu(2, 4) as batches:
            kept = list(islice(batches, 50))
        rows = [batch["index"].tolist() for batch in kept]
        assert rows == [[2 * number, 2 * number + 1] for number in range(50)]

    @pytest.mark.gpu_serial
    def test_the_next_batch_is_had_while_the_gpu_is_busy(self):
        with on_gpu(2, 8) as batches:
            for batch in islice(batches, 20):
                batch["picture"].sum()  # A kernel that is loaded later waits for the GPU.
            time.sleep(0.5)
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            try:
                keep_busy(1.0)
                batch = next(batches)
                total = batch["picture"].sum()
                is_busy = not torch.cuda.current_stream().query()
            finally:
                torch.cuda.set_sync_debug_mode("default")
            assert is_busy
            expected = (batch["index"] % 251).sum() * 3 * PICTURES.side**2
            assert total.item() == expected.item()

    def test_memory_on_the_gpu_stays_flat(self):
        with on_gpu(2, 8) as batches:
            list(islice(batches, 50))
            torch.cuda.synchronize()
            before = torch.cuda.memory_reserved()
            for number, batch in enumerate(islice(batches, 500)):
                batch["picture"].float().mul_(2)
                if number % 10 == 0:
                    torch.cuda.synchronize()
            assert torch.cuda.memory_reserved() <= before + 2**22

    def test_memory_is_page_locked_until_it_is_given_back(self):
        for _ in range(3):
            slots = Slots(PICTURES.layout(NUM_SAMPLES), NUM_SAMPLES, 3)
            block = slots.block(1)
            assert slots.pin() and block.is_pinned()
            slots.close()
            assert not block.is_pinned()

    def test_memory_that_cannot_be_page_locked_does_not_disturb_other_work(self):
        slots = Slots(PICTURES.layout(NUM_SAMPLES), NUM_SAMPLES, 3)
        assert slots.pin() and not slots.pin()
        assert torch.ones(3, device="cuda").sum().item() == 3
        torch.cuda.synchronize()
