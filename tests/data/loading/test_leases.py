"""Slots lent out and taken back."""

from itertools import islice

import numpy as np
import pytest
import torch
from synthetic import Numbers, Trouble

from manyhands.data.loading.leases import Lease, Leases
from manyhands.data.loading.slots import Slots
from manyhands.data.loading.workers import NoWorkers, Request
from manyhands.errors import DatasetError


class Noted(NoWorkers):
    """Reads in this process and keeps what was requested."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.requests: list[Request] = []
        self.is_closed = False

    def request(self, request: Request) -> None:
        self.requests.append(request)
        super().request(request)

    def close(self) -> None:
        self.is_closed = True


def lend(batches: list[list[int]], num_slots: int, source=None) -> tuple[Leases, Noted]:
    source = source or Numbers()
    slots = Slots(source.layout(2), 2, num_slots)
    readers = Noted(source, slots)
    return Leases(map(np.array, batches), slots, readers), readers


def rows_of(lease: Lease) -> list[int]:
    return lease.batch_in(lease.block)["index"].tolist()


BATCHES = [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


def test_batches_come_in_order_and_the_last_may_be_shorter():
    leases, _ = lend(BATCHES, num_slots=2)
    seen = []
    for lease in leases:
        batch = lease.batch_in(lease.block)
        assert batch["task"] == [f"task {row}" for row in batch["index"]]
        assert batch["picture"].shape == (len(batch["task"]), 3, 5, 5)
        seen.append(rows_of(lease))
        lease.release()
    assert seen == BATCHES
    assert next(leases, None) is None


def test_a_slot_is_filled_anew_only_after_its_release():
    leases, readers = lend(BATCHES, num_slots=3)
    assert [request.slot for request in readers.requests] == [0, 1, 2]
    first, second = next(leases), next(leases)
    assert len(readers.requests) == 3
    first.release()
    assert readers.requests[3:] == [Request(0, 2)]
    assert rows_of(next(leases)) == [4, 5]
    assert rows_of(second) == [2, 3]
    second.release()
    assert readers.requests[4:] == [Request(1, 1)]
    assert [rows_of(lease) for lease in islice(leases, 2)] == [[6, 7], [8]]


def test_a_copy_of_the_bytes_stays_after_the_release():
    leases, _ = lend(BATCHES, num_slots=1)
    lease = next(leases)
    copy = lease.block.clone()
    lease.release()
    assert rows_of(next(leases)) == [2, 3]
    assert torch.equal(lease.batch_in(copy)["index"], torch.tensor([0, 1]))
    assert lease.batch_in(copy)["task"] == ["task 0", "task 1"]


def test_asking_while_every_slot_is_lent_out_is_a_bug():
    leases, _ = lend(BATCHES, num_slots=1)
    _kept = next(leases)
    with pytest.raises(AssertionError, match="slot is in use"):
        next(leases)


def test_an_error_ends_the_reading():
    leases, readers = lend(BATCHES, 2, Trouble(kind="damaged", row=2))
    next(leases).release()
    with pytest.raises(DatasetError):
        next(leases)
    assert readers.is_closed
    assert next(leases, None) is None


def test_after_closing_nothing_comes_and_a_late_release_does_no_harm():
    leases, readers = lend(BATCHES, num_slots=2)
    with leases:
        lease = next(leases)
    leases.close()
    lease.release()
    assert readers.is_closed and next(leases, None) is None and not leases.is_ready()
    assert len(readers.requests) == 2
