"""Loader processes: each fills requested slots and answers with what is not an array."""

import os
import signal
import time
import traceback
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

import numpy as np
import torch

from manyhands.data.batches import BatchSource
from manyhands.data.loading.forkserver import start_context
from manyhands.data.loading.slots import Slots
from manyhands.errors import EnvironmentFault, UserError
from manyhands.launch.helper_process import live_as_long_as_rank

GRACE_S = 2.0  # How long a process may finish its read when it is stopped

Objects = dict[str, list[object]]  # Values of a batch that are not arrays: lists of strings, by key


class Request(NamedTuple):
    """Read the first rows that stand in a slot into its arrays."""

    slot: int
    num_samples: int


class Crash(NamedTuple):
    """The traceback of an unexpected error."""

    text: str


class NoWorkers:
    """Reads in this process, when the answer is requested."""

    def __init__(self, source: BatchSource, slots: Slots) -> None:
        self._source = source
        self._slots = slots
        self._requests: deque[Request] = deque()

    def request(self, request: Request) -> None:
        """Queue a request."""
        self._requests.append(request)

    def answer(self) -> Objects:
        """Fill the slot of the oldest request."""
        return _fill(self._source, self._slots, self._requests.popleft())

    def is_ready(self) -> bool:
        """Never: reading begins on request."""
        return False

    def close(self) -> None:
        """Nothing was started."""


class Workers:
    """Loader processes that take turns, so that their number never shows in the answers."""

    def __init__(
        self, source: BatchSource, slots: Slots, num_workers: int, start_method: str
    ) -> None:
        self._connections: list[Connection[Any, Any]] = []
        self._processes: list[BaseProcess] = []
        self._num_requested = 0
        self._num_answered = 0
        # When closed, when dropped, or when the program ends: multiprocessing would wait for
        # processes that heed no signal.
        self._end = Finalize(self, _end, (self._connections, self._processes), exitpriority=10)
        # Processes forked off a server find everything imported: they start in an instant.
        context = start_context(start_method, type(source).__module__)
        for number in range(num_workers):
            here, there = context.Pipe()
            self._connections.append(here)
            process = context.Process(
                target=_serve,
                args=(there, source, slots),
                name=f"manyhands-loader-{number}",
                daemon=True,
            )
            process.start()
            there.close()
            self._processes.append(process)

    def request(self, request: Request) -> None:
        """Give the worker whose turn it is something to read."""
        worker = self._num_requested % len(self._connections)
        self._num_requested += 1
        # A dead worker is reported at its answer: what it finished still counts.
        with suppress(ConnectionError):
            self._connections[worker].send(request)

    def answer(self) -> Objects:
        """Wait for the oldest request to be fulfilled; raises the worker's error."""
        worker = self._num_answered % len(self._connections)
        self._num_answered += 1
        try:
            answer = self._connections[worker].recv()
        except (EOFError, ConnectionError):
            raise self._death_of(worker) from None
        match answer:
            case UserError():
                raise answer
            case Crash(text):
                raise RuntimeError(f"loader process {worker} failed:\n{text}")
        objects: Objects = answer
        return objects

    def is_ready(self) -> bool:
        """Whether the next answer is there already."""
        return self._connections[self._num_answered % len(self._connections)].poll()

    def close(self) -> None:
        """End the processes; doing it twice does no harm."""
        self._end()

    def _death_of(self, worker: int) -> Exception:
        process = self._processes[worker]
        process.join(GRACE_S)
        code = process.exitcode
        message = f"loader process {worker} of {len(self._processes)}, counted from 0, "
        if code is None or code >= 0:
            return RuntimeError(f"{message}exited with code {code} without an answer")
        message += f"was killed by signal {-code} ({signal.strsignal(-code)})"
        if -code not in (signal.SIGKILL, signal.SIGBUS):
            return RuntimeError(message)
        return EnvironmentFault(
            f"{message}, probably out of memory. Lower --num_workers, --prefetch_factor, "
            "--batch_size or --max_ram"
        )


Readers = NoWorkers | Workers


def _end(connections: list["Connection[Any, Any]"], processes: list[BaseProcess]) -> None:
    for connection in connections:
        # A forked process holds the other ends too: that this one is closed it would not notice.
        with suppress(ConnectionError):
            connection.send(None)
        connection.close()
    deadline = time.monotonic() + GRACE_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def _serve(connection: "Connection[Any, Any]", source: BatchSource, slots: Slots) -> None:
    """Main loop of a loader process, until it is stopped or its rank is gone."""
    try:
        live_as_long_as_rank()
        torch.set_num_threads(1)
        for request in iter(connection.recv, None):
            answer: Objects | UserError
            try:
                answer = _fill(source, slots, request)
            except UserError as error:
                # Sent as a value, so that its message arrives complete.
                answer = error
            connection.send(answer)
    except BaseException:
        connection.send(Crash(traceback.format_exc()))
        raise
    finally:
        # Exit without tearing down libraries that may be at work: all answers are sent.
        os._exit(0)


def _fill(source: BatchSource, slots: Slots, request: Request) -> Objects:
    rows: np.ndarray = slots.rows(request.slot)[: request.num_samples].copy()
    arrays = slots.arrays(request.slot)
    return source.fill(rows, {key: array[: len(rows)] for key, array in arrays.items()})
