"""Stores that a run looks after together."""

import os
import threading

import numpy as np

from manyhands.data.cache.store import CacheStores, FrameStore
from manyhands.data.cache.store_files import StoreSpec


class TwoStores(CacheStores):
    """Stores of one frame each."""

    def __init__(self, home) -> None:
        specs = [StoreSpec(key, (64, 64), np.dtype(np.uint8), 1) for key in ("one", "two")]
        self._stores = [FrameStore(home, spec, 1 << 20) for spec in specs]
        for store in self._stores:
            store.write(0, bytes(64 * 64))

    @property
    def stores(self) -> list[FrameStore]:
        return self._stores


def test_all_are_read_ahead_or_none(tmp_path, monkeypatch):
    kept, advised = TwoStores(tmp_path), []
    monkeypatch.setattr(os, "posix_fadvise", lambda *request: advised.append(request))
    kept.make_durable()
    total = sum(store.disk_bytes for store in kept.stores)
    kept.read_ahead(total - 1)
    assert advised == []
    kept.read_ahead(total)
    assert len(advised) == 2


def test_reading_ahead_goes_on_beside_everything_else(tmp_path, monkeypatch):
    kept, readers = TwoStores(tmp_path), []
    monkeypatch.setattr(
        kept, "read_ahead", lambda most: readers.append((most, threading.current_thread()))
    )
    kept.read_ahead_in_background(7)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(1)
    assert readers[0][0] == 7 and readers[0][1] is not threading.current_thread()


def test_all_outlive_the_machines_next_start(tmp_path, monkeypatch):
    kept = TwoStores(tmp_path)
    kept.make_durable()
    monkeypatch.setattr("manyhands.data.cache.store_files.boot_id", lambda: "another")
    again = TwoStores(tmp_path)
    assert all(store.are_present(np.arange(1)).all() for store in again.stores)
