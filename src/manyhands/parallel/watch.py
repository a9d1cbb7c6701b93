"""Whether all ranks live and get on, watched by a thread of each.

Every rank tells a store which phase it is in. A rank that is gone, or that stays in one phase for
too long, ends the run: the first rank to notice says so, and all leave. Whoever waits in a
collective cannot do that by itself.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import psutil
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from manyhands.errors import RankLost, Stopped
from manyhands.parallel.channel import Channel
from manyhands.parallel.exits import leave_now, report, speak
from manyhands.parallel.hang import Place, hang_told, read_place, write_stacks
from manyhands.parallel.peers import is_gone, machine_identity
from manyhands.stop import StopSignal

PERIOD_S = 0.5
GRACE_S = 4.0
"""How long the main thread may take to leave by itself once the run is over."""
TEARDOWN_S = 3.0
"""The same for the rank that ended it: it reports why before the others are gone."""
REPORT_S = 5.0
"""How long ranks may take to say where they are once one of them is late."""
RETIRE_S = 2.0
"""How long a look at the store may take."""
WAIT_S = 0.05
VERDICT, LATE, STOPPED = "verdict", "late", "stopped"


class Watch:
    """Watches over all ranks from one of them."""

    def __init__(
        self,
        store: Store,
        rank: int,
        num_ranks: int,
        timeout_s: float,
        tells_losses: bool = True,
    ) -> None:
        self.rank = rank
        self.hang_dir: Path | None = None
        """Where stacks go; the console before a run has a folder."""
        self.stop = StopSignal()
        """Requests that reached this rank; all leave if one does before the first update."""
        self._num_ranks = num_ranks
        self._timeout_s = timeout_s
        self._tells_losses = tells_losses
        self._main_store = store
        # One thread must never wait for the other. Torch does not declare that stores have clones.
        self._store: Store = cast(Any, store).clone()
        self._place = Place(0, "start", time.time())
        # Clocks are set now and then, and no rank is late because of that.
        self._began_s = time.monotonic()
        self._is_patient = False
        self._is_stopped = False
        self._exit_code = RankLost.exit_code
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._over = threading.Event()
        self._is_retired = False
        self._looks_no_more = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._peers = self._introduce()

    def begin(self, phase: str) -> None:
        """Note that this rank gets on: it begins a phase."""
        self._place = Place(self._place.num_phases + 1, phase, time.time())
        self._began_s = time.monotonic()

    @contextmanager
    def patiently(self, phase: str) -> Iterator[None]:
        """A phase that may take any time, because one rank works and the others wait for it."""
        self.begin(phase)
        self._is_patient = True
        try:
            yield
        finally:
            self.begin(f"after {phase}")
            self._is_patient = False

    def wait_for(self, key: str) -> None:
        """Wait until a rank has said something, however long that takes it."""
        while not self._main_store.check([key]):
            if self._over.wait(WAIT_S):
                raise RankLost

    def say(self, key: str) -> None:
        """Let ranks go on that wait for something."""
        self._main_store.set(key, "1")

    def channel(self, name: str) -> Channel:
        """A way for threads of ranks to talk while their main threads do something else."""
        # A store serves one thread at a time.
        store = cast(Any, self._main_store).clone()
        return Channel(PrefixStore(name, store), self._over)

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def leave(self) -> None:
        """Watch no more; the main rank keeps the store until all others have left it."""
        with self.patiently("end"):
            for rank in range(1, self._num_ranks if self.rank == 0 else 0):
                self.wait_for(f"left/{rank}")
        self._ended.set()
        self._thread.join()
        self._main_store.set(f"left/{self.rank}", "1")

    def retire(self) -> None:
        """Look no more, and only see to it that this process ends.

        A thread that is in a store while Python goes down aborts the process.
        """
        if self._is_stopped:
            self._exit_code = Stopped.exit_code
        self._is_retired = True
        self._looks_no_more.wait(RETIRE_S)

    def leave_stopped(self) -> None:
        """Leave because of a request to stop; the others are told, and leave too."""
        self._is_stopped = True
        # A main rank that is gone took the store along.
        with suppress(dist.DistError):
            self._main_store.set(STOPPED, "1")
            self.leave()

    def is_stopped(self) -> bool:
        """Whether ranks leave because of a request to stop that came before the first update."""
        with suppress(dist.DistError):
            self._is_stopped = self._is_stopped or self._main_store.check([STOPPED])
        return self._is_stopped

    def claim(self, error: BaseException) -> bool:
        """End the run; whether this rank is the first to do so, and speaks for all."""
        self._exit_code = getattr(error, "exit_code", 1)
        told = f"rank {self.rank} failed: {type(error).__name__}: {error}"
        is_first = self._claim(told, self._main_store)
        if is_first:
            self._error = error
        return is_first

    def leave_lost(self, told: str) -> None:
        """Leave a run in which an exchange failed: the first to find out says which rank is gone.

        Where all seem to be there, what the transport told is all there is to say.
        """
        try:
            self._main_store.set(f"left/{self.rank}", "1")
            lost = self._lost_peer(self._main_store)
        except dist.DistError:
            lost = f"rank 0 was lost, which rank {self.rank} can no longer reach"
        if lost is None and self._over.wait(GRACE_S):
            return
        self._tell(lost or f"a rank was lost: {told}", self._main_store)

    def _tell(self, told: str, store: Store) -> None:
        if self._claim(told, store) and self._tells_losses:
            speak(told)

    def _claim(self, told: str, store: Store) -> bool:
        own = f"{self.rank} {threading.get_ident()} {told}"
        # A main rank that is gone took the store along; whoever is left may speak.
        with suppress(dist.DistError):
            return bool(store.compare_set(VERDICT, "", own).decode() == own)
        return True

    def _introduce(self) -> dict[int, psutil.Process]:
        """Make this process known; the processes of the other ranks of this machine."""
        here = machine_identity()
        # Whoever knows this rank must be able to tell where it is.
        self._store.set(f"place/{self.rank}", self._place.told())
        self._store.set(f"peer/{self.rank}", f"{os.getpid()} {here}")
        keys = [f"peer/{rank}" for rank in range(self._num_ranks)]
        peers = {}
        for rank, told in enumerate(self._store.multi_get(keys)):
            pid, where = told.decode().split(" ", 1)
            if where == here and rank != self.rank and psutil.pid_exists(int(pid)):
                peers[rank] = psutil.Process(int(pid))
        return peers

    def _watch(self) -> None:
        shown = None
        while not self._ended.wait(PERIOD_S) and not self._is_retired:
            try:
                if shown != self._place:
                    shown = self._place
                    self._store.set(f"place/{self.rank}", shown.told())
                self._look()
            except dist.DistError:
                self._end(f"rank 0 was lost, which rank {self.rank} can no longer reach")
        self._looks_no_more.set()
        if self._is_retired:
            self._leave_soon(GRACE_S if self._error is None else TEARDOWN_S)

    def _look(self) -> None:
        if self._look_for_a_stop():
            return
        if self._store.check([VERDICT]):
            self._leave_soon()
        lost = self._lost_peer(self._store)
        if lost is not None:
            self._end(lost)
        if self._is_late() or self._store.check([LATE]):
            self._report()

    def _look_for_a_stop(self) -> bool:
        """Whether some rank leaves before the first update because it was asked to stop."""
        if self.stop.is_obeyed and not self._is_stopped:
            self._store.set(STOPPED, "1")
        self._is_stopped = self._is_stopped or self._store.check([STOPPED])
        if self._is_stopped:
            self.stop.request()
        return self._is_stopped

    def _lost_peer(self, store: Store) -> str | None:
        for rank, process in self._peers.items():
            if is_gone(process) and not store.check([f"left/{rank}"]):
                return f"rank {rank} was lost: its process {process.pid} is gone"
        return None

    def _is_late(self) -> bool:
        return not self._is_patient and time.monotonic() - self._began_s > self._timeout_s

    def _end(self, told: str) -> None:
        # A rank may have left in order between the two looks at it.
        if self._ended.is_set() or self._is_stopped:
            return
        self._tell(told, self._store)
        self._leave_soon()

    def _leave_soon(self, grace_s: float = GRACE_S) -> None:
        """Let the main thread leave, or leave without it if it hangs."""
        self._over.set()
        if self._ended.wait(grace_s):
            return
        if self._error is not None:
            report(self._error, self.rank)
        leave_now(self._exit_code)

    def _report(self) -> None:
        """Show where every rank is, and leave."""
        self._store.set(LATE, "1")
        # A full disk must not keep this thread from ending the process.
        with suppress(OSError):
            write_stacks(self.hang_dir, self.rank)
        self._store.set(f"late/{self.rank}", self._place.told())
        deadline = time.monotonic() + REPORT_S
        answers = [f"late/{rank}" for rank in range(self._num_ranks)]
        while not self._store.check(answers) and time.monotonic() < deadline:
            time.sleep(0.05)
        told = self._places_told()
        if self._claim(told, self._store):
            speak(told)
        # Others may still write; whoever started the ranks ends them once one has left.
        time.sleep(1.0)
        leave_now(1)

    def _places_told(self) -> str:
        silent = [
            rank for rank in range(self._num_ranks) if not self._store.check([f"late/{rank}"])
        ]
        places = [
            read_place(self._store.get(f"place/{rank}" if rank in silent else f"late/{rank}"))
            for rank in range(self._num_ranks)
        ]
        return hang_told(places, silent, self._timeout_s, self.hang_dir)
