"""Ranks watch over each other; tests/training/test_failures.py does it with whole runs."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from manyhands.errors import RankLost
from manyhands.parallel.rendezvous import NoWatchdog
from manyhands.parallel.watchdog import ASKED_TO_STOP, PERIOD_S, Watchdog


@pytest.fixture
def watches() -> Iterator[list[Watchdog]]:
    """The watches of two ranks, which live in one process here."""
    # The store lives as long as its first owner.
    store = dist.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
    made: dict[int, Watchdog] = {}

    def make(rank: int) -> None:
        made[rank] = Watchdog(store.clone(), rank, 2, timeout_s=60)

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    yield [made[0], made[1]]
    store.delete_key("the test is over")


def test_the_first_rank_to_end_a_run_speaks_for_all(watches):
    assert watches[1].claim(ValueError("in rank 1"))
    assert not watches[0].claim(ValueError("in rank 0"))


@pytest.mark.parametrize(
    ("others", "alike"), [(ValueError("bad"), True), (ValueError("worse"), False), (None, False)]
)
def test_ranks_fail_alike_if_all_have_the_same_error(watches, others, alike):
    watches[0].claim(ValueError("bad"))
    if others is not None:
        watches[1].claim(others)
    assert watches[0].all_failed_alike() == alike


def test_a_loss_is_told_once_whichever_thread_finds_out(watches):
    claims = []
    lost = ValueError("lost")
    thread = threading.Thread(target=lambda: claims.append(watches[0].claim(lost)))
    thread.start()
    thread.join()
    assert claims == [True]
    assert not watches[0].claim(lost)


def test_the_main_rank_leaves_last(watches):
    for watch in watches:
        watch.start()
    left = []
    main = threading.Thread(target=lambda: (watches[0].leave(), left.append(0)))
    main.start()
    time.sleep(0.2)
    assert left == []
    watches[1].leave()
    main.join(10)
    assert left == [0]


def test_ranks_wait_until_something_is_said(watches):
    steps = []

    def speak_later() -> None:
        time.sleep(0.2)
        steps.append("said")
        watches[0].publish("done")

    assert not watches[1].has("done")
    threading.Thread(target=speak_later).start()
    watches[1].wait_for("done")
    assert steps == ["said"] and watches[1].has("done")


def test_whoever_waits_hears_that_the_run_is_over(watches):
    watches[1].start()
    watches[0].claim(ValueError("in rank 0"))
    with pytest.raises(RankLost):
        watches[1].wait_for("never said")
    watches[1].leave()


@pytest.mark.parametrize("is_deferred", [False, True])
def test_a_request_that_one_rank_obeys_reaches_all_and_a_deferred_one_waits(watches, is_deferred):
    for watch in watches:
        watch.start()
    if is_deferred:
        watches[1].stop.defer()
    watches[1].stop.request()
    deadline = time.monotonic() + (3 * PERIOD_S if is_deferred else 30)
    while not watches[0].stop.requested and time.monotonic() < deadline:
        time.sleep(0.05)
    assert watches[0].stop.requested != is_deferred
    assert watches[0].is_stopped() != is_deferred
    # Who works while others wait for it asks for requests to them.
    assert watches[0].has(ASKED_TO_STOP)
    others = [threading.Thread(target=watch.leave) for watch in watches]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(30)
        assert not thread.is_alive()


def test_a_single_process_has_nobody_to_wait_for():
    watch, waited = NoWatchdog(), threading.Event()

    def wait() -> None:
        watch.begin("data")
        with watch.without_timeout("work"):
            watch.wait_for("anything")
        waited.set()

    threading.Thread(target=wait, daemon=True).start()
    assert waited.wait(10)
    assert not watch.has("anything")
