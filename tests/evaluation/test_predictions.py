"""Predictions happen in order beside the environments; errors are raised to the caller."""

import threading
from contextlib import closing

import pytest
import torch

from manyhands.evaluation.predictions import Predictions
from manyhands.evaluation.rollout_control import RolloutControl

DEADLINE_S = 30.0
MAX_STEPS = 50


class BlockedActor:
    """Predicts the requests themselves, once allowed to."""

    device = torch.device("cpu")

    def __init__(self):
        self.allowed = threading.Semaphore(0)
        self.order = []

    def chunks(self, requests, max_steps):
        assert self.allowed.acquire(timeout=DEADLINE_S) and max_steps == MAX_STEPS
        self.order.append(requests)
        if "broken" in requests:
            raise RuntimeError("no chunk")
        return requests


@pytest.fixture
def actor():
    return BlockedActor()


@pytest.fixture
def predictions(actor):
    with closing(Predictions(actor, MAX_STEPS, RolloutControl())) as opened:
        yield opened
        actor.allowed.release(2)


def test_the_caller_goes_on_and_takes_chunks_in_the_order_of_requests(predictions, actor):
    predictions.request(1, ["a"])
    predictions.request(0, ["b", "c"])
    assert predictions.groups == {0, 1} and predictions.take() == []
    actor.allowed.release()
    predictions.wait(DEADLINE_S)
    assert predictions.take() == [(1, ["a"])] and predictions.groups == {0}
    actor.allowed.release()
    predictions.wait(DEADLINE_S)
    assert predictions.take() == [(0, ["b", "c"])] and predictions.groups == set()


def test_an_error_is_raised_where_chunks_are_taken(predictions, actor):
    predictions.request(0, ["broken"])
    actor.allowed.release()
    predictions.wait(DEADLINE_S)
    with pytest.raises(RuntimeError, match="no chunk"):
        predictions.take()


def test_waiting_ends_without_a_prediction(predictions):
    predictions.request(0, ["a"])
    predictions.wait(0.01)
    assert predictions.take() == []


def test_the_end_waits_for_a_prediction_and_drops_those_that_have_not_begun(actor):
    begun = threading.Event()
    started, chunks = [], actor.chunks

    def record(requests, max_steps):
        started.append(requests)
        begun.set()
        return chunks(requests, max_steps)

    actor.chunks = record
    with closing(Predictions(actor, MAX_STEPS, RolloutControl())) as predictions:
        predictions.request(0, ["a"])
        predictions.request(1, ["b"])
        assert begun.wait(DEADLINE_S)
        threading.Timer(0.2, actor.allowed.release, (2,)).start()
    assert started == actor.order == [["a"]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_predictions_are_made_on_the_stream_of_the_caller(actor):
    actor.device, stream = torch.device("cuda", 0), torch.cuda.Stream()
    actor.chunks = lambda requests, max_steps: torch.cuda.current_stream()
    with torch.cuda.stream(stream), closing(Predictions(actor, 1, RolloutControl())) as opened:
        opened.request(0, [])
        opened.wait(DEADLINE_S)
        assert opened.take() == [(0, stream)]
