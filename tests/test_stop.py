"""Requests to stop."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from manyhands.errors import Stopped
from manyhands.stop import LEAVE_S, SIGNALS, StopSignal

DEADLINE_S = 30
# A lock taken twice is a wait that no signal ends.
STUCK = """
import ctypes
from manyhands.stop import StopSignal

mutex, lock = ctypes.create_string_buffer(256), ctypes.CDLL(None).pthread_mutex_lock
with StopSignal(insists=True) as stop:
    {first}
    lock(mutex)
    print("up", flush=True)
    lock(mutex)
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_request_interrupts_and_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped), StopSignal():
        os.kill(os.getpid(), number)
        time.sleep(DEADLINE_S)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_deferred_request_waits_until_somebody_obeys(number):
    with StopSignal() as stop:
        stop.defer()
        os.kill(os.getpid(), number)
        assert stop.requested
        assert not stop.is_immediate
        with pytest.raises(Stopped):
            stop.raise_if_requested()


def test_only_the_first_request_interrupts_whoever_cleans_up():
    with StopSignal() as stop:
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.is_immediate


@pytest.mark.parametrize("is_deferred", [True, False])
def test_a_second_ctrl_c_stops_at_once(is_deferred):
    with StopSignal() as stop:
        if is_deferred:
            stop.defer()
            os.kill(os.getpid(), signal.SIGINT)
        else:
            with pytest.raises(Stopped):
                os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_request_while_a_module_is_imported_is_obeyed_afterwards(tmp_path, monkeypatch):
    asking = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nis_imported = True\n"
    (tmp_path / "asked_meanwhile.py").write_text(asking)
    monkeypatch.syspath_prepend(tmp_path)
    with StopSignal() as stop:
        assert importlib.import_module("asked_meanwhile").is_imported
        assert stop.requested
        with pytest.raises(Stopped):
            stop.raise_if_requested()


def test_another_thread_can_ask_and_wakes_the_main_one():
    start = time.monotonic()
    with pytest.raises(Stopped), StopSignal() as stop:
        threading.Timer(0.1, stop.request).start()
        threading.Event().wait(DEADLINE_S)
    assert time.monotonic() - start < DEADLINE_S


def test_without_signals_a_request_is_noted():
    stop = StopSignal()
    stop.request()
    assert stop.requested


def test_other_threads_leave_signals_to_the_main_one():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def listen() -> None:
        with StopSignal(insists=True):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [before]


def stuck(first: str) -> subprocess.Popen[str]:
    script = STUCK.format(first=first)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


ANSWERING = "stop.defer(lambda is_second: print('again' if is_second else 'once', flush=True))"


def test_requests_are_answered_at_once_and_a_second_ctrl_c_ends_a_stuck_process():
    process = stuck(ANSWERING)
    start = time.monotonic()
    for answer in ("once\n", "again\n"):
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == answer
    assert time.monotonic() - start < LEAVE_S
    assert process.wait(DEADLINE_S) == 130


IMPORTING = """
import sys
from manyhands.errors import Stopped
from manyhands.stop import StopSignal

sys.path.insert(0, {folder!r})
try:
    with StopSignal(insists=True, on_delay=lambda: print("heard", flush=True)):
        import slow
        for _ in range({num_s}):
            slow.time.sleep(1)
except Stopped:
    print("stopped")
"""


def test_a_request_within_an_import_is_answered_at_once_and_obeyed_after_it(tmp_path):
    (tmp_path / "slow.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(1.5)")
    script = IMPORTING.format(folder=str(tmp_path), num_s=DEADLINE_S)
    program = [sys.executable, "-c", script]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert process.stdout.readline() == "heard\n"
        assert time.monotonic() - start < 1
        assert process.stdout.read() == "stopped\n"
        assert time.monotonic() - start < LEAVE_S


def test_a_request_before_requests_are_deferred_is_not_answered_as_if_there_were_steps():
    answers: list[bool] = []
    with StopSignal() as stop:
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        stop.defer(answers.append)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
    assert answers == []


def test_each_answer_is_given_once():
    answers: list[bool] = []
    with StopSignal() as stop:
        stop.defer(answers.append)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    deadline = time.monotonic() + DEADLINE_S
    while len(answers) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answers == [False, True]


def test_a_process_that_hears_nothing_ends_unless_it_has_something_to_save():
    deaf, busy = stuck(""), stuck("stop.defer()")
    start = time.monotonic()
    for process in (deaf, busy):
        process.terminate()
    assert deaf.wait(DEADLINE_S) == 75
    assert LEAVE_S <= time.monotonic() - start < LEAVE_S + 5
    with pytest.raises(subprocess.TimeoutExpired):
        busy.wait(1)
    busy.kill()
    busy.wait()
