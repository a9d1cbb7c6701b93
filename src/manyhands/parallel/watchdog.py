"""Watchdog: a thread of each rank checks that all ranks are alive and make progress.

Every rank writes its phase to a store. A rank that died, or that stays in one phase for too long,
ends the run: the first rank to notice reports it, and all exit. The main thread cannot do that
while it waits in a collective.
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
from manyhands.parallel.hang_report import (
    RankPhase,
    force_exit,
    hang_message,
    main_frame,
    print_last,
    read_place,
    report,
    write_flight_record,
    write_stacks,
)
from manyhands.parallel.messages import StoreMessages
from manyhands.parallel.placement import has_exited, machine_identity
from manyhands.stop import StopSignal

PERIOD_S = 0.5
GRACE_S = 4.0  # How long the main thread may take to exit once the run is over.
TEARDOWN_S = 3.0  # The same for the rank that ended the run: it reports why before the others exit.
REPORT_S = 5.0  # How long ranks may take to report their phase once one of them is late.
RETIRE_S = 2.0  # How long one check of the store may take.
ALIKE_S = 1.0  # How long the first rank to fail waits for others that fail like it.
WAIT_S = 0.05
VERDICT, LATE, STOPPED = "verdict", "late", "stopped"
ASKED_TO_STOP = "asked to stop"  # Set once any rank has a request, which it obeys after its step.


class Watchdog:
    """The watchdog of one rank over all ranks."""

    def __init__(
        self,
        store: Store,
        rank: int,
        num_ranks: int,
        timeout_s: float,
        reports_losses: bool = True,
    ) -> None:
        self.rank = rank
        self.hang_dir: Path | None = None
        """Folder for stacks; None prints them before a run has a folder."""
        self.stop = StopSignal()
        """Stop requests of this rank; one before the first step stops all ranks."""
        self._num_ranks = num_ranks
        self._timeout_s = timeout_s
        self._reports_losses = reports_losses
        self._main_store = store
        # Two threads must not block each other. Torch does not declare that stores have clones.
        self._store: Store = cast(Any, store).clone()
        self._place = RankPhase(0, "start", time.time())
        # The wall clock may be adjusted, which must not make a rank late.
        self._began_s = time.monotonic()
        self._ignores_timeout = False
        self._is_stopped = False
        self._has_relayed = False
        self._exit_code = RankLost.exit_code
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._over = threading.Event()
        self._is_retired = False
        self._has_stopped_checking = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._peers = self._introduce()

    def begin(self, phase: str) -> None:
        """Record progress of this rank: the start of a phase."""
        self._place = RankPhase(self._place.num_phases + 1, phase, time.time())
        self._began_s = time.monotonic()

    @contextmanager
    def without_timeout(self, phase: str) -> Iterator[None]:
        """A phase without timeout, in which ranks wait for one that works."""
        self.begin(phase)
        self._ignores_timeout = True
        try:
            yield
        finally:
            self.begin(f"after {phase}")
            self._ignores_timeout = False

    def wait_for(self, key: str) -> None:
        """Wait without timeout until a rank has set a key."""
        while not self._main_store.check([key]):
            if self._over.wait(WAIT_S):
                raise RankLost

    def publish(self, key: str) -> None:
        """Set a key that other ranks wait for."""
        self._main_store.set(key, "1")

    def has(self, key: str) -> bool:
        """Whether a rank has set a key."""
        return bool(self._main_store.check([key]))

    def channel(self, name: str) -> StoreMessages:
        """A channel for background threads of ranks."""
        # A store serves one thread at a time.
        store = cast(Any, self._main_store).clone()
        return StoreMessages(PrefixStore(name, store), self._over)

    def start(self) -> None:
        """Start the watchdog."""
        self._thread.start()

    def leave(self) -> None:
        """Stop the watchdog; the main rank keeps the store until all others have left."""
        with self.without_timeout("end"):
            for rank in range(1, self._num_ranks if self.rank == 0 else 0):
                self.wait_for(f"left/{rank}")
        self._ended.set()
        self._thread.join()
        self._main_store.set(f"left/{self.rank}", "1")

    def stop_watching(self) -> None:
        """Stop checking, and only ensure that this process ends."""
        # A thread that uses a store while Python shuts down aborts the process.
        if self._is_stopped:
            self._exit_code = Stopped.exit_code
        self._is_retired = True
        self._has_stopped_checking.wait(RETIRE_S)

    def leave_stopped(self) -> None:
        """Leave because of a stop request; notify the others, which leave too."""
        self._is_stopped = True
        # The store is gone if the main rank died.
        with suppress(dist.DistError):
            self._main_store.set(STOPPED, "1")
            self.leave()

    def is_stopped(self) -> bool:
        """Whether ranks leave because of a stop request before the first step."""
        with suppress(dist.DistError):
            self._is_stopped = self._is_stopped or self._main_store.check([STOPPED])
        return self._is_stopped

    def claim(self, error: BaseException) -> bool:
        """End the run; returns whether this rank is the first to do so, and reports for all."""
        self._exit_code = getattr(error, "exit_code", 1)
        reason = f"{type(error).__name__}: {error}"
        with suppress(dist.DistError):
            self._main_store.set(f"error/{self.rank}", reason)
        message = f"rank {self.rank} failed: {reason}"
        is_first = self._claim(message, self._main_store)
        if is_first:
            self._error = error
        return is_first

    def all_failed_alike(self) -> bool:
        """Whether every rank fails with the same error, within a moment."""
        keys = [f"error/{rank}" for rank in range(self._num_ranks)]
        deadline = time.monotonic() + ALIKE_S
        with suppress(dist.DistError):
            while not self._main_store.check(keys):
                if time.monotonic() > deadline:
                    return False
                time.sleep(WAIT_S)
            return len({*self._main_store.multi_get(keys)}) == 1
        return False

    def leave_lost(self, reason: str) -> None:
        """Leave a run after a failed collective: the first to notice reports the lost rank."""
        # If all ranks seem alive, it reports the error of the transport.
        try:
            self._main_store.set(f"left/{self.rank}", "1")
            lost = self._lost_peer(self._main_store)
        except dist.DistError:
            lost = f"rank 0 was lost, which rank {self.rank} can no longer reach"
        if lost is None and self._over.wait(GRACE_S):
            return
        self._report_loss(lost or f"a rank was lost: {reason}", self._main_store)

    def _report_loss(self, message: str, store: Store) -> None:
        if self._claim(message, store) and self._reports_losses:
            print_last(message)

    def _claim(self, message: str, store: Store) -> bool:
        own = f"{self.rank} {threading.get_ident()} {message}"
        # The store is gone if the main rank died; then any rank may report.
        with suppress(dist.DistError):
            return bool(store.compare_set(VERDICT, "", own).decode() == own)
        return True

    def _introduce(self) -> dict[int, psutil.Process]:
        """Register this process; returns the processes of the other ranks of this machine."""
        here = machine_identity()
        # Before the peer entry: ranks that see it also read the place.
        self._store.set(f"place/{self.rank}", self._place.as_text())
        self._store.set(f"peer/{self.rank}", f"{os.getpid()} {here}")
        keys = [f"peer/{rank}" for rank in range(self._num_ranks)]
        peers = {}
        for rank, entry in enumerate(self._store.multi_get(keys)):
            pid, where = entry.decode().split(" ", 1)
            if where == here and rank != self.rank and psutil.pid_exists(int(pid)):
                peers[rank] = psutil.Process(int(pid))
        return peers

    def _watch(self) -> None:
        shown = None
        while not self._ended.wait(PERIOD_S) and not self._is_retired:
            try:
                if shown != self._place:
                    shown = self._place
                    self._store.set(f"place/{self.rank}", shown.as_text())
                self._check()
            except dist.DistError:
                self._end(f"rank 0 was lost, which rank {self.rank} can no longer reach")
        self._has_stopped_checking.set()
        if self._is_retired:
            self._leave_soon(GRACE_S if self._error is None else TEARDOWN_S)

    def _check(self) -> None:
        if self._check_stop_request():
            return
        if self._store.check([VERDICT]):
            self._leave_soon()
        lost = self._lost_peer(self._store)
        if lost is not None:
            self._end(lost)
        is_late = not self._ignores_timeout and time.monotonic() - self._began_s > self._timeout_s
        if is_late or self._store.check([LATE]):
            self._report_hang()

    def _check_stop_request(self) -> bool:
        if self.stop.requested and not self._has_relayed:
            # For a rank that works alone: the main thread of this one may wait for it.
            self._store.set(ASKED_TO_STOP, "1")
            self._has_relayed = True
        if self.stop.is_immediate and not self._is_stopped:
            self._store.set(STOPPED, "1")
        self._is_stopped = self._is_stopped or self._store.check([STOPPED])
        if self._is_stopped:
            self.stop.request()
        return self._is_stopped

    def _lost_peer(self, store: Store) -> str | None:
        for rank, process in self._peers.items():
            if has_exited(process) and not store.check([f"left/{rank}"]):
                return f"rank {rank} was lost: its process {process.pid} is gone"
        return None

    def _end(self, message: str) -> None:
        # The rank may have left regularly between the two checks.
        if self._ended.is_set() or self._is_stopped:
            return
        self._report_loss(message, self._store)
        self._leave_soon()

    def _leave_soon(self, grace_s: float = GRACE_S) -> None:
        """Let the main thread exit, or exit without it if it hangs."""
        self._over.set()
        if self._ended.wait(grace_s):
            return
        if self._error is not None:
            report(self._error, self.rank)
        force_exit(self._exit_code)

    def _report_hang(self) -> None:
        self._store.set(LATE, "1")
        # A full disk must not keep this thread from ending the process.
        with suppress(OSError):
            write_stacks(self.hang_dir, self.rank)
        place = self._place._replace(frame=main_frame())
        self._store.set(f"late/{self.rank}", place.as_text())
        write_flight_record(self.hang_dir, self.rank)
        deadline = time.monotonic() + REPORT_S
        answers = [f"late/{rank}" for rank in range(self._num_ranks)]
        while not self._store.check(answers) and time.monotonic() < deadline:
            time.sleep(0.05)
        silent = [
            rank for rank in range(self._num_ranks) if not self._store.check([f"late/{rank}"])
        ]
        places = [
            read_place(self._store.get(f"place/{rank}" if rank in silent else f"late/{rank}"))
            for rank in range(self._num_ranks)
        ]
        message = hang_message(places, silent, self._timeout_s, self.hang_dir)
        if self._claim(message, self._store):
            print_last(message)
        # Others may still write; the launcher ends all ranks once one has exited.
        time.sleep(1.0)
        force_exit(1)
