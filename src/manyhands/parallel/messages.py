"""Short messages between ranks that background threads can wait for without a collective."""

import threading

from torch._C._distributed_c10d import Store

from manyhands.errors import RankLost

WAIT_S = 0.05


class StoreMessages:
    """Messages between ranks under unique names."""

    def __init__(self, store: Store, is_over: threading.Event) -> None:
        self._store = store
        self._is_over = is_over

    def send(self, name: str, text: str = "") -> None:
        """Send a message to all ranks."""
        # An empty value would count as missing.
        self._store.set(name, f"{text}\n")

    def receive(self, name: str) -> str:
        """Wait for the message of a name, without timeout; raises if the run ends."""
        while not self._store.check([name]):
            if self._is_over.wait(WAIT_S):
                raise RankLost
        return self._store.get(name).decode()[:-1]


class LocalMessages:
    """The channel of a single process."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def send(self, name: str, text: str = "") -> None:
        """Store a message."""
        self._messages[name] = text

    def receive(self, name: str) -> str:
        """The stored message."""
        return self._messages.pop(name)
