"""Requests to stop."""

import os
import signal

import pytest

from manyhands.training.stop import SIGNALS, StopSignal


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
    assert signal.getsignal(number) is before


def test_a_second_interrupt_stops_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignal():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
