"""Stop requests to other ranks are noticed while one works alone."""

from types import SimpleNamespace

import torch.distributed as dist

from manyhands.parallel import stop_notice
from manyhands.parallel.stop_notice import StopNotice


def noticing(monkeypatch, asks, has=lambda _: False):
    monkeypatch.setattr(stop_notice, "POLL_S", 0)
    world = SimpleNamespace(is_asked_to_stop=asks, watch=SimpleNamespace(has=has))
    return StopNotice(world)


def test_a_request_to_this_rank_or_to_another_is_noticed(monkeypatch):
    assert not noticing(monkeypatch, False)()
    assert noticing(monkeypatch, True)()
    assert noticing(monkeypatch, False, lambda _: True)()


def test_a_request_stays_a_request(monkeypatch):
    answers = iter([False, True, False])
    notice = noticing(monkeypatch, False, lambda _: next(answers))
    assert [notice(), notice(), notice()] == [False, True, True]


def test_a_lost_main_rank_is_not_a_request(monkeypatch):
    def lost(_):
        raise dist.DistError("connection reset")

    assert not noticing(monkeypatch, False, lost)()
