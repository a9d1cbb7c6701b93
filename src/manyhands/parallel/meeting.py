"""Where ranks meet: a store that the main rank keeps, or torchrun for it, and the group they form.

However a rank leaves, the others learn of it and leave too; the group is torn down in any case.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import rendezvous

from manyhands.config.launcher import Launcher
from manyhands.errors import Diverged, EnvironmentFault, RankLost, Stopped, UserError
from manyhands.parallel.watch import NoWatch, Watch
from manyhands.stop import StopSignal

MARGIN_S = 60.0
"""How much later than the watch, which says more about it, the transport gives up waiting."""
LINGER_S = 1.0
"""How long ranks with nothing to say stay, so that no launcher ends the one that speaks."""
LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket closed",
    "remote process",
)
"""What gloo and NCCL say when a rank at the other end has died."""


@dataclass(frozen=True)
class Meeting:
    """The ranks of a run, met."""

    watch: Watch | NoWatch
    host_group: dist.ProcessGroup | None
    """For agreement about host matters, which never waits for a GPU; None for a single rank."""
    timeout: timedelta
    """How long the transport waits."""
    stop: StopSignal
    """Requests that reached this rank."""


@contextmanager
def met(launcher: Launcher, backend: str, timeout_s: float, stop: StopSignal) -> Iterator[Meeting]:
    """Meet the other ranks that a launcher started, and leave them in any case."""
    timeout = timedelta(seconds=timeout_s + MARGIN_S)
    if not launcher.started_ranks:
        yield Meeting(NoWatch(), None, timeout, stop)
        return
    rank, num_ranks = launcher.rank, launcher.num_ranks
    store = open_store(launcher, timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=num_ranks, timeout=timeout)
    try:
        if num_ranks == 1:
            yield Meeting(NoWatch(), None, timeout, stop)
            return
        watch_store = PrefixStore("watch", store)
        # Our own launcher sees how a rank ends, and says so.
        watch = Watch(watch_store, rank, num_ranks, timeout_s, not launcher.is_ours)
        watch.stop = stop
        with _watched(watch):
            yield Meeting(watch, dist.new_group(backend="gloo", timeout=timeout), timeout, stop)
    finally:
        dist.destroy_process_group()


def open_store(launcher: Launcher, timeout: timedelta) -> Store:
    """Find the store; the main rank makes it unless a launcher has."""
    rank, num_ranks = launcher.rank, launcher.num_ranks
    address, port = launcher.main_address, launcher.main_port
    if address is None or port is None:
        raise EnvironmentFault(
            f"rank {rank} of {num_ranks} does not know where to meet the others: the launcher must "
            "set MASTER_ADDR and MASTER_PORT"
        )
    try:
        if launcher.listening is None:
            store: Store = next(rendezvous("env://", rank, num_ranks, timeout=timeout))[0]
        else:
            store = TCPStore(
                address, port, num_ranks, True, timeout, master_listen_fd=launcher.listening
            )
        return PrefixStore(f"attempt/{launcher.attempt}", store)
    except dist.DistError as error:
        raise EnvironmentFault(_meeting_fault(str(error), launcher)) from error


def _meeting_fault(told: str, launcher: Launcher) -> str:
    where = f"{launcher.main_address}:{launcher.main_port}"
    if "EADDRINUSE" in told:
        return (
            f"another program uses port {launcher.main_port}, which MASTER_PORT or the launcher "
            "chose for the ranks to meet at; choose another: MASTER_PORT for srun, "
            "--master-port for torchrun, --main_process_port=0 for accelerate launch"
        )
    if "clients joined" in told:
        joined = told.rpartition(". ")[2].split()[0]
        return (
            f"only {joined} ranks came to {where} in time; start the launcher on every machine, "
            "or see why the others ended"
        )
    return f"rank {launcher.rank} cannot reach the main rank at {where}: {told.splitlines()[0]}"


@contextmanager
def _watched(watch: Watch) -> Iterator[None]:
    """Watch over the ranks, and tell them of whatever ends this one.

    The watch outlives a failure: it ends this process should tearing down not come to an end.
    """
    watch.start()
    try:
        yield
        watch.leave()
    except (UserError, Diverged) as error:
        if not watch.claim(f"rank {watch.rank}: {error}", error.exit_code):
            raise RankLost from error
        error.rank = watch.rank
        raise
    except Stopped:
        watch.leave_stopped()
        raise
    except RankLost:
        if watch.is_stopped():
            raise Stopped from None
        time.sleep(LINGER_S)
        raise
    except BaseException as error:
        if is_of_a_lost_peer(error) and watch.is_stopped():
            watch.leave_stopped()
            raise Stopped from None
        if is_of_a_lost_peer(error):
            watch.leave_lost(str(error).splitlines()[0])
            time.sleep(LINGER_S)
            raise RankLost from error
        watch.claim(f"rank {watch.rank} failed: {type(error).__name__}: {error}", exit_code=1)
        raise
    finally:
        watch.retire()


def is_of_a_lost_peer(error: BaseException) -> bool:
    """Whether an error only tells that an exchange with another rank failed."""
    told = any(sign in str(error) for sign in LOST_PEER)
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and told)
