"""Asynchronous save: a thread of every rank writes its shards, the main rank publishes them.

Ranks agree by messages, never by a collective: training may run one at any moment.
"""

import json
import threading
import time
from collections.abc import Callable

import torch.distributed as dist

from manyhands.checkpoint.writer import CheckpointWriter, write_error
from manyhands.errors import RankLost, Stopped
from manyhands.manifest import Entry
from manyhands.parallel.messages import LocalMessages, StoreMessages
from manyhands.parallel.world import World

PAUSES_S = (2.0, 10.0)  # Delays before a failed save is retried.
DAMAGE = "!"  # Prefix of a message that reports a failure.

Log = Callable[[str], None]


class AsyncSave:
    """One save in progress."""

    def __init__(
        self,
        name: str,
        files: CheckpointWriter,
        world: World,
        channel: StoreMessages | LocalMessages,
    ) -> None:
        self._name = name
        self._files = files
        self._world = world
        self._channel = channel
        self._log: Log = print
        self.fault: str | None = None  # Why the save failed.
        self.wall_s: float | None = None  # How long it took, once it is written.
        self._error: BaseException | None = None
        self._is_hurried = threading.Event()
        self._thread = threading.Thread(target=self._run, name="saving", daemon=True)

    def start(self, log: Log) -> None:
        """Start the save; the main rank logs its progress."""
        self._log = log
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def finish(self) -> None:
        """Wait for the end; raises unexpected errors."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def skip_retry_delay(self) -> None:
        """Skip delays between attempts: training waits for the next save."""
        self._is_hurried.set()

    def cancel(self) -> None:
        """Leave no checkpoint, unless it is complete."""
        self._files.cancel()

    def wait(self, seconds: float) -> None:
        """Wait for the end with a timeout; raises nothing."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._try_often()
        except (RankLost, Stopped, dist.DistError) as error:
            # The main thread notices too; the traceback of this thread would hide its message.
            self._error = error
        except BaseException as error:
            self._error = error
            raise

    def _try_often(self) -> None:
        started = time.monotonic()
        for number, pause_s in enumerate((*PAUSES_S, None)):
            key = f"{self._name}/{number}"
            attempt = self._run_main if self._world.is_main else self._run_other
            self.fault = attempt(key)
            if self.fault is None:
                self.wall_s = time.monotonic() - started
                self._report(f"checkpoint of step {self._files.step} saved in {self.wall_s:.1f} s")
                return
            if pause_s is None:
                break
            self._report(f"WARNING: {self.fault}; retrying in {pause_s:.0f} s")
            self._is_hurried.wait(pause_s if self._world.is_main else 0.0)
        self._files.give_up()
        self._report(f"WARNING: {self.fault}; older checkpoints are intact and training continues")

    def _report(self, text: str) -> None:
        if self._world.is_main:
            self._log(text)

    def _run_main(self, key: str) -> str | None:
        """Let all ranks write, publish the checkpoint, and send the result."""
        verdict = f"{DAMAGE}the main rank failed"
        try:
            fault = self._guarded(self._files.check_disk_space)
            self._channel.send(f"{key}/open", f"{DAMAGE}{fault}" if fault else "")
            fault = fault or self._collect_shards(key)
            verdict = f"{DAMAGE}{fault}" if fault else ""
        finally:
            self._channel.send(f"{key}/verdict", verdict)
        return self._fault_in(verdict)

    def _collect_shards(self, key: str) -> str | None:
        shards: dict[str, Entry] = {}
        if self._files.is_sharded:
            self._channel.send(f"{key}/{self._world.rank}", self._written())
            for rank in range(self._world.size):
                message = self._channel.receive(f"{key}/{rank}")
                fault = self._fault_in(message)
                if fault is not None:
                    return f"rank {rank}: {fault}"
                name, *entry = json.loads(message)
                shards[name] = Entry(*entry)
        return self._guarded(lambda: self._files.write(shards))

    def _run_other(self, key: str) -> str | None:
        can_write = self._fault_in(self._channel.receive(f"{key}/open")) is None
        if can_write and self._files.is_sharded:
            self._channel.send(f"{key}/{self._world.rank}", self._written())
        return self._fault_in(self._channel.receive(f"{key}/verdict"))

    def _written(self) -> str:
        try:
            name, entry = self._files.write_shard()
        except OSError as error:
            return f"{DAMAGE}{write_error(error, self._files.target)}"
        return json.dumps([name, *entry])

    def _guarded(self, work: Callable[[], None]) -> str | None:
        try:
            work()
        except OSError as error:
            return write_error(error, self._files.target)
        return None

    @staticmethod
    def _fault_in(message: str) -> str | None:
        return message.removeprefix(DAMAGE) if message.startswith(DAMAGE) else None
