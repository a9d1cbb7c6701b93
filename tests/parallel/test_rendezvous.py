"""Ranks meet, or are told why they cannot."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
import torch.distributed as dist

from manyhands.config.launch.launcher import Launcher
from manyhands.errors import EnvironmentFault
from manyhands.launch.workers import LOOPBACK, free_port, listen
from manyhands.parallel.rendezvous import NoWatchdog, is_peer_lost, joined_rendezvous, open_store
from manyhands.stop import StopSignal

SOON = timedelta(seconds=10)
"""Long enough for a store to start on a busy machine."""


def place(port: int, rank: int = 0, num_ranks: int = 2) -> Launcher:
    return Launcher(
        rank=rank, num_ranks=num_ranks, started_ranks=True, main_address=LOOPBACK, main_port=port
    )


@pytest.fixture
def meeting_point(monkeypatch) -> int:
    port = free_port()
    monkeypatch.setenv("MASTER_ADDR", LOOPBACK)
    monkeypatch.setenv("MASTER_PORT", str(port))
    return port


def test_a_port_that_is_taken_is_named(monkeypatch):
    with listen(LOOPBACK, None, "nobody") as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("MASTER_ADDR", LOOPBACK)
        monkeypatch.setenv("MASTER_PORT", str(port))
        with pytest.raises(EnvironmentFault, match=f"program uses the rendezvous port {port}"):
            open_store(place(port), SOON)


def test_ranks_that_do_not_come_are_counted(meeting_point):
    with pytest.raises(EnvironmentFault, match="only 1/2 ranks joined"):
        open_store(place(meeting_point), SOON)


def test_ranks_that_are_started_again_find_nothing_of_those_before_them(monkeypatch):
    # As torchrun does, whose store outlives the ranks.
    kept = dist.TCPStore(LOOPBACK, 0, 1, True, wait_for_workers=False)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("MASTER_ADDR", LOOPBACK)
    monkeypatch.setenv("MASTER_PORT", str(kept.port))
    first, again = place(kept.port, 0, 1), replace(place(kept.port, 0, 1), attempt=1)
    open_store(first, SOON).set("key", "value")
    assert open_store(first, SOON).check(["key"])
    assert not open_store(again, SOON).check(["key"])


def test_a_launcher_that_does_not_say_where_to_meet_is_told():
    nowhere = Launcher(rank=1, num_ranks=2, started_ranks=True)
    with pytest.raises(EnvironmentFault, match="must set MASTER_ADDR and MASTER_PORT"):
        open_store(nowhere, SOON)


def test_a_single_rank_of_a_launcher_forms_a_group_and_leaves_it(meeting_point):
    with joined_rendezvous(place(meeting_point, num_ranks=1), "gloo", 10, StopSignal()) as joined:
        assert dist.get_world_size() == 1
        assert isinstance(joined.watch, NoWatchdog)
        assert joined.host_group is None
    assert not dist.is_initialized()


def test_without_a_launcher_nobody_is_met():
    with joined_rendezvous(Launcher(), "gloo", 10, StopSignal()) as joined:
        assert not dist.is_initialized()
        assert isinstance(joined.watch, NoWatchdog)


def test_teardown_comes_after_the_run_last_given_first_and_hides_no_error():
    done = []

    def fail() -> None:
        done.append("fails")
        raise RuntimeError("CUDA error: unspecified launch failure")

    with (
        pytest.raises(KeyError, match="the run's own"),
        joined_rendezvous(Launcher(), "gloo", 10, StopSignal()) as joined,
    ):
        joined.on_teardown(lambda: done.append("last"))
        joined.on_teardown(fail)
        done.append("run")
        raise KeyError("the run's own")
    assert done == ["run", "fails", "last"]


def test_what_fails_after_a_good_run_is_an_error():
    def fail() -> None:
        raise RuntimeError("CUDA error")

    with (
        pytest.raises(RuntimeError),
        joined_rendezvous(Launcher(), "gloo", 10, StopSignal()) as joined,
    ):
        joined.on_teardown(fail)


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]"), True),
        (dist.DistNetworkError("failed to recv, got 0 bytes"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("Connection closed by peer"), False),
    ],
)
def test_errors_of_a_lost_peer_are_told_from_our_own(error, is_lost):
    assert is_peer_lost(error) is is_lost


LEAVING = """
import sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from manyhands.parallel.rendezvous import _leave_group

torch.set_num_threads(1)
sys.setswitchinterval(0.05)  # Threads wait long for the GIL, as on a busy machine.
end = time.monotonic() + 10
num_left = 0
while time.monotonic() < end:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    module = DistributedDataParallel(torch.nn.Linear(2000, 500))
    module(torch.ones(2, 2000)).sum().backward()
    dist.all_reduce(torch.ones(100_000))
    _leave_group()
    del module
    num_left += 1
print(num_left)
"""


@pytest.mark.soak
@pytest.mark.process
def test_a_group_that_is_freed_at_once_does_not_wait_for_its_threads_forever():
    done = subprocess.run(
        [sys.executable, "-c", LEAVING], check=True, timeout=90, stdout=subprocess.PIPE
    )
    assert int(done.stdout) > 1
