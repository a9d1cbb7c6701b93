"""The exit codes of workers, put together."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.launch.outcome import LOST, STOPPED, UNHEARD, WorkerDeath, is_explained, outcome_of
from manyhands.stop import SIGNALS


@pytest.mark.parametrize(
    ("codes", "code", "deaths"),
    [
        ([0, 0], 0, []),
        ([0, STOPPED], STOPPED, []),
        ([STOPPED, -signal.SIGTERM], STOPPED, []),
        ([LOST, 1], 1, [WorkerDeath(1, 1)]),
        ([LOST, -signal.SIGKILL, None], 137, [WorkerDeath(1, -9)]),
        ([1, -signal.SIGKILL], 137, [WorkerDeath(0, 1), WorkerDeath(1, -9)]),
        ([-signal.SIGKILL, 2], 2, [WorkerDeath(0, -9), WorkerDeath(1, 2)]),
        ([3, LOST], 3, [WorkerDeath(0, 3)]),
        ([LOST, 0], 1, [WorkerDeath(1, 0)]),
        ([LOST, LOST], 1, []),
        ([-signal.SIGABRT, 2], 2, [WorkerDeath(1, 2)]),
        ([-signal.SIGABRT, 1], 1, [WorkerDeath(1, 1)]),
        ([-signal.SIGABRT, LOST], 134, [WorkerDeath(0, -6)]),
    ],
)
def test_the_code_that_explains_most_is_that_of_the_whole(codes, code, deaths):
    outcome = outcome_of(codes)
    assert (outcome.code, [*outcome.deaths]) == (code, deaths)


@given(st.lists(st.sampled_from([0, STOPPED, *UNHEARD]), min_size=1))
def test_workers_that_were_asked_have_not_failed(codes):
    assert outcome_of(codes).code == (STOPPED if any(codes) else 0)
    assert not outcome_of(codes).deaths


@given(st.lists(st.integers(-64, 255).filter(lambda code: code != 0), min_size=1))
def test_no_failure_looks_like_success(codes):
    assert 0 < outcome_of(codes).code < 256


def test_ranks_that_were_dragged_down_explain_nothing():
    assert not is_explained([None, LOST, STOPPED])
    assert not is_explained([None, -signal.SIGABRT])
    assert is_explained([None, LOST, 1])


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGKILL, "SIGKILL, probably out of memory"),
        (-signal.SIGSEGV, "was killed by SIGSEGV"),
        (0, "exited before the others, with exit code 0"),
        (1, "failed with exit code 1; see its output above"),
    ],
)
def test_a_death_is_told(code, words):
    assert words in WorkerDeath(2, code).how


def test_every_signal_that_asks_to_stop_may_come_too_early():
    assert {-code for code in UNHEARD} == set(SIGNALS)
