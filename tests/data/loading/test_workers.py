"""Loader processes: what they answer, how they fail, how they end."""

import gc
import time

import pytest
from processes import DEADLINE_S, are_gone, loader_processes
from synthetic import LongTexts, Numbers, Trouble

from manyhands.data.loading.slots import Slots
from manyhands.data.loading.workers import NoWorkers, Readers, Request, Workers
from manyhands.errors import ConfigError, DatasetError, EnvironmentFault

pytestmark = pytest.mark.process


def start(source: Numbers, num_workers: int, context: str = "fork") -> tuple[Workers, Slots]:
    slots = Slots(source.layout(2), 2, 4)
    return Workers(source, slots, num_workers, context), slots


def request(readers: Readers, slots: Slots, slot: int, *rows: int) -> None:
    slots.rows(slot)[: len(rows)] = rows
    readers.request(Request(slot, len(rows)))


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_requests_are_answered_in_turn_and_in_their_slots(num_workers):
    source = Numbers()
    slots = Slots(source.layout(2), 2, 4)
    readers: Readers = NoWorkers(source, slots)
    if num_workers:
        readers = Workers(source, slots, num_workers, "fork")
    for slot, rows in ((2, (5, 6)), (0, (7,)), (3, (8, 9)), (1, (1, 1))):
        request(readers, slots, slot, *rows)
    assert [readers.answer()["task"] for _ in range(4)] == [
        ["task 5", "task 6"],
        ["task 7"],
        ["task 8", "task 9"],
        ["task 1", "task 1"],
    ]
    assert slots.arrays(2)["index"].tolist() == [5, 6]
    assert slots.arrays(0)["index"].tolist() == [7, 0]
    assert slots.arrays(1)["is_odd"].all()
    readers.close()


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_a_users_mistake_arrives_as_it_was_raised(context):
    workers, slots = start(Trouble(kind="damaged", row=4), 2, context)
    request(workers, slots, 0, 3)
    request(workers, slots, 1, 4)
    assert workers.answer() == {"task": ["task 3"]}
    with pytest.raises(DatasetError) as caught:
        workers.answer()
    assert str(caught.value) == "row 4 is damaged; see\n  its file"
    workers.close()


def test_a_mistake_with_a_constructor_of_its_own_arrives_whole():
    workers, slots = start(Trouble(kind="faults"), 1)
    request(workers, slots, 0, 0)
    with pytest.raises(ConfigError) as caught:
        workers.answer()
    assert str(caught.value) == "one fault\nanother"
    assert caught.value.faults == ["one fault", "another"]
    workers.close()


def test_any_other_error_arrives_with_the_traceback_of_its_process(capfd):
    workers, slots = start(Trouble(kind="bug"), 1)
    request(workers, slots, 0, 0)
    with pytest.raises(RuntimeError, match=r"loader process 0 failed:\nTraceback") as caught:
        workers.answer()
    assert 'raise KeyError("what nobody expected")' in str(caught.value)
    workers.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("kind", "error", "told"),
    [
        (
            "kill",
            EnvironmentFault,
            r"1 of 2, .* signal 9 \(Killed\), .* out of memory\. .*--max_ram",
        ),
        ("timer", RuntimeError, r"1 of 2, .* was killed by signal 26 \(Virtual timer expired\)$"),
        ("leave", RuntimeError, "1 of 2, .* exited with code 3 without an answer$"),
    ],
)
@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_a_worker_that_dies_is_told_of_at_once(context, kind, error, told):
    workers, slots = start(Trouble(kind=kind, row=4), 2, context)
    for row in (2, 3):
        request(workers, slots, row, row)
    assert [workers.answer()["task"] for _ in range(2)] == [["task 2"], ["task 3"]]
    began = time.monotonic()
    for slot, row in enumerate((5, 4, 6)):
        request(workers, slots, slot, row)
    assert workers.answer() == {"task": ["task 5"]}
    with pytest.raises(error, match=told):
        workers.answer()
    assert time.monotonic() - began < DEADLINE_S
    request(workers, slots, 3, 7)
    assert workers.answer() == {"task": ["task 6"]}
    workers.close()


def test_answers_a_worker_gave_before_it_died_still_count():
    workers, slots = start(Numbers(), 1)
    for slot in range(3):
        request(workers, slots, slot, slot)
    while not workers.is_ready():
        time.sleep(0.01)
    time.sleep(0.2)
    (process,) = loader_processes()
    process.kill()
    assert [workers.answer()["task"] for _ in range(3)] == [[f"task {row}"] for row in range(3)]
    request(workers, slots, 0, 0)
    with pytest.raises(EnvironmentFault, match="process 0 of 1"):
        workers.answer()
    workers.close()


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_processes_end_when_closed_even_twice(context):
    workers, slots = start(Numbers(), 3, context)
    request(workers, slots, 0, 0)
    workers.answer()
    processes = loader_processes()
    assert len(processes) == 3
    workers.close()
    workers.close()
    assert are_gone(processes)


def test_processes_end_when_nobody_holds_them():
    workers, _ = start(Numbers(), 2)
    processes = loader_processes()
    del workers
    gc.collect()
    assert are_gone(processes)


def test_a_process_that_is_stuck_is_not_waited_for_long():
    workers, slots = start(Trouble(kind="stuck"), 1)
    request(workers, slots, 0, 0)
    processes = loader_processes()
    began = time.monotonic()
    workers.close()
    assert are_gone(processes) and time.monotonic() - began < DEADLINE_S


def test_answers_may_be_larger_than_a_pipe():
    workers, slots = start(LongTexts(), 1)
    for slot in range(4):
        request(workers, slots, slot, slot)
    for row in range(4):
        assert workers.answer() == {"task": [str(row) * 1_000_000]}
    workers.close()
