"""Messages between threads of ranks."""

import threading
from datetime import timedelta

import pytest
from torch.distributed import HashStore, PrefixStore, TCPStore

from manyhands.errors import RankLost
from manyhands.parallel.messages import LocalMessages, StoreMessages


def test_what_is_said_is_heard_however_late():
    store = TCPStore("localhost", 0, 1, True, timedelta(seconds=10), wait_for_workers=False)
    over = threading.Event()
    speaker, listener = (StoreMessages(PrefixStore("a", store.clone()), over) for _ in range(2))
    timer = threading.Timer(0.2, speaker.send, ("1/open", "step\n3"))
    timer.start()
    assert listener.receive("1/open") == "step\n3"
    speaker.send("1/verdict")
    assert listener.receive("1/verdict") == ""


def test_nobody_waits_for_a_run_that_is_over():
    over = threading.Event()
    channel = StoreMessages(HashStore(), over)
    threading.Timer(0.1, over.set).start()
    with pytest.raises(RankLost):
        channel.receive("never")


def test_a_single_process_hears_itself():
    channel = LocalMessages()
    channel.send("1/open", "now")
    assert channel.receive("1/open") == "now"
