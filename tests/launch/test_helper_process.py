"""A helper process heeds no signal of its job, and ends with its rank."""

import multiprocessing
import os
import signal
import time

import psutil
import pytest

from manyhands.launch.helper_process import JOB_SIGNALS, live_as_long_as_rank

DEADLINE_S = 60.0
FORK = multiprocessing.get_context("fork")


def help_out(sender):
    live_as_long_as_rank()
    sender.send(os.getpid())
    time.sleep(DEADLINE_S)


def be_rank(sender):
    FORK.Process(target=help_out, args=(sender,), daemon=True).start()
    time.sleep(DEADLINE_S)


@pytest.fixture
def rank_and_helper():
    receiver, sender = FORK.Pipe(duplex=False)
    rank = FORK.Process(target=be_rank, args=(sender,))
    rank.start()
    assert receiver.poll(DEADLINE_S)
    yield rank, psutil.Process(receiver.recv())
    rank.kill()
    rank.join()


def test_signals_to_the_job_end_no_helper_and_the_end_of_its_rank_does(rank_and_helper):
    rank, helper = rank_and_helper
    for number in JOB_SIGNALS:
        helper.send_signal(number)
    with pytest.raises(psutil.TimeoutExpired):
        helper.wait(0.3)
    os.kill(rank.pid, signal.SIGKILL)
    helper.wait(10)
