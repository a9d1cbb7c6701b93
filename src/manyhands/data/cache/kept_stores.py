"""The stores on disk that a run uses."""

import threading
from abc import ABC, abstractmethod

from manyhands.data.cache.store import FrameStore


class KeptStores(ABC):
    """Stores of frames or of vision tokens."""

    @property
    @abstractmethod
    def stores(self) -> list[FrameStore]:
        """Those that were opened, if they are on disk."""

    def make_durable(self) -> None:
        """Make cached frames durable against a crash of the machine."""
        for store in self.stores:
            store.make_durable()

    def read_ahead(self, max_bytes: int) -> None:
        """Load the stores into memory if all of them fit."""
        if sum(store.disk_bytes for store in self.stores) <= max_bytes:
            for store in self.stores:
                store.read_ahead()

    def read_ahead_meanwhile(self, max_bytes: int) -> None:
        """Load the stores into memory in the background."""
        threading.Thread(target=self.read_ahead, args=(max_bytes,), daemon=True).start()
