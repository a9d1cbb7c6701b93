"""Rendezvous: the store of the main rank or of torchrun, and the process group.

However a rank leaves, the others notice and leave too; the group is always torn down.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import rendezvous

from manyhands.config.launch.launcher import Launcher
from manyhands.errors import Diverged, EnvironmentFault, RankLost, Stopped, UserError
from manyhands.parallel.collectives import owning_collectives
from manyhands.parallel.messages import LocalMessages
from manyhands.parallel.watchdog import PERIOD_S, Watchdog
from manyhands.stop import StopSignal


class NoWatchdog:
    """The watchdog of a single process: does nothing."""

    hang_dir: Path | None = None

    def begin(self, phase: str) -> None:
        """Do nothing."""

    @contextmanager
    def without_timeout(self, phase: str) -> Iterator[None]:
        """Do nothing."""
        yield

    def wait_for(self, key: str) -> None:
        """Do nothing."""

    def publish(self, key: str) -> None:
        """Do nothing."""

    def has(self, key: str) -> bool:
        """Whether another rank has set a key: there is none."""
        return False

    def channel(self, name: str) -> LocalMessages:
        """A channel within this process."""
        return LocalMessages()


MARGIN_S = 60.0  # Delay of the transport timeout after that of the watchdog, which reports more.
RELEASE_S = 0.1  # How long threads of a group have to release what they hold, once it is unused.
EXIT_DELAY_S = 2.0
"""How long ranks without a report stay, so that no launcher ends the reporting rank."""
LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket closed",
    "remote process",
)
"""Messages of gloo and NCCL after a peer has died."""


@dataclass(frozen=True)
class Rendezvous:
    """The ranks of a run after the rendezvous."""

    watch: Watchdog | NoWatchdog
    host_group: dist.ProcessGroup | None
    """Group for host objects, which never waits for a GPU; None for a single rank."""
    timeout: timedelta  # Timeout of the transport.
    stop: StopSignal  # Stop requests of this rank.
    teardown: ExitStack

    def on_teardown(self, work: Callable[[], object]) -> None:
        """Register work for the teardown, in reverse order."""
        # The others already know how this rank ended, so the work may hang.
        self.teardown.push(_undoing(work))


@contextmanager
def joined_rendezvous(
    launcher: Launcher, backend: str, timeout_s: float, stop: StopSignal
) -> Iterator[Rendezvous]:
    """Join the other ranks that a launcher started; always leave at the end."""
    timeout = timedelta(seconds=timeout_s + MARGIN_S)
    with ExitStack() as teardown, owning_collectives():
        if not launcher.started_ranks:
            yield Rendezvous(NoWatchdog(), None, timeout, stop, teardown)
            return
        rank, num_ranks = launcher.rank, launcher.num_ranks
        store = open_store(launcher, timeout)
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=num_ranks, timeout=timeout
        )
        teardown.push(_undoing(_leave_group))
        if num_ranks == 1:
            yield Rendezvous(NoWatchdog(), None, timeout, stop, teardown)
            return
        watch_store = PrefixStore("watch", store)
        # Our own launcher sees how a rank ends, and reports it.
        watch = Watchdog(watch_store, rank, num_ranks, timeout_s, not launcher.is_ours)
        watch.stop = stop
        with _watched(watch):
            host_group = dist.new_group(backend="gloo", timeout=timeout)
            yield Rendezvous(watch, host_group, timeout, stop, teardown)


def _leave_group() -> None:
    # Whoever frees a group of gloo joins its threads while holding the GIL. They need the GIL
    # themselves to release the tensors of their last collectives: they get it now.
    time.sleep(RELEASE_S)
    dist.destroy_process_group()


def _undoing(work: Callable[[], object]) -> Callable[..., None]:
    """An exit callback that never hides the error that ended a run."""

    def leave(kind: type[BaseException] | None, *_: object) -> None:
        # After an error of CUDA or NCCL every further call may fail.
        with nullcontext() if kind is None else suppress(RuntimeError):
            work()

    return leave


def open_store(launcher: Launcher, timeout: timedelta) -> Store:
    """Connect to the store; the main rank creates it unless a launcher has."""
    rank, num_ranks = launcher.rank, launcher.num_ranks
    address, port = launcher.main_address, launcher.main_port
    if address is None or port is None:
        raise EnvironmentFault(
            f"rank {rank} of {num_ranks} has no rendezvous address. The launcher must set "
            "MASTER_ADDR and MASTER_PORT"
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
        raise EnvironmentFault(_rendezvous_fault(str(error), launcher)) from error


def _rendezvous_fault(message: str, launcher: Launcher) -> str:
    where = f"{launcher.main_address}:{launcher.main_port}"
    if "EADDRINUSE" in message:
        return (
            f"another program uses the rendezvous port {launcher.main_port} (MASTER_PORT). Choose "
            "another: MASTER_PORT for srun, --master-port for torchrun, --main_process_port=0 for "
            "accelerate launch"
        )
    if "clients joined" in message:
        joined = message.rpartition(". ")[2].split()[0]
        return (
            f"only {joined} ranks joined the rendezvous at {where} in time. Start the launcher on "
            "every machine, or check why the others ended"
        )
    return f"rank {launcher.rank} cannot reach the main rank at {where}: {message.splitlines()[0]}"


@contextmanager
def _watched(watch: Watchdog) -> Iterator[None]:
    """Run the watchdog, and notify the other ranks of whatever ends this one."""
    # The watchdog outlives a failure: it ends this process if the teardown hangs.
    watch.start()
    try:
        yield
        watch.leave()
    except (UserError, Diverged) as error:
        if not watch.claim(error):
            time.sleep(EXIT_DELAY_S)
            raise RankLost from error
        error.rank = watch.rank
        error.is_common = error.is_common or watch.all_failed_alike()
        _let_others_know(watch)
        raise
    except Stopped:
        watch.leave_stopped()
        raise
    except RankLost:
        if watch.is_stopped():
            raise Stopped from None
        time.sleep(EXIT_DELAY_S)
        raise
    except BaseException as error:
        if is_peer_lost(error) and watch.is_stopped():
            watch.leave_stopped()
            raise Stopped from None
        if is_peer_lost(error):
            watch.leave_lost(str(error).splitlines()[0])
            time.sleep(EXIT_DELAY_S)
            raise RankLost from error
        if watch.claim(error):
            _let_others_know(watch)
        raise
    finally:
        watch.stop_watching()


def _let_others_know(watch: Watchdog) -> None:
    """Keep the store of the main rank until the others have read it."""
    if watch.rank == 0:
        time.sleep(PERIOD_S)


def is_peer_lost(error: BaseException) -> bool:
    """Whether an error only reports a lost connection to another rank."""
    has_sign = any(sign in str(error) for sign in LOST_PEER)
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and has_sign)
