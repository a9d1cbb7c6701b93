"""The stores on disk that a run uses, looked after together."""

import threading
from abc import ABC, abstractmethod

from manyhands.data.cache.store import FrameStore


class KeptStores(ABC):
    """Stores of frames, or of what was made of them."""

    @property
    @abstractmethod
    def stores(self) -> list[FrameStore]:
        """Those that were opened, if they are on disk."""

    def make_durable(self) -> None:
        """Let what was kept outlive a crash of the machine."""
        for store in self.stores:
            store.make_durable()

    def read_ahead(self, max_bytes: int) -> None:
        """Bring what is kept into memory, if there is room for all of it."""
        if sum(store.disk_bytes for store in self.stores) <= max_bytes:
            for store in self.stores:
                store.read_ahead()

    def read_ahead_meanwhile(self, max_bytes: int) -> None:
        """The same beside whatever comes next."""
        threading.Thread(target=self.read_ahead, args=(max_bytes,), daemon=True).start()
