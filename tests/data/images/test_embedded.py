"""Pictures inside data files."""

import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.images import embedded as stored_bytes
from manyhands.data.images.embedded import EmbeddedImageReader
from manyhands.data.writing.output_files import SizeLimits
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

KEY = "observation.image"


@pytest.fixture
def source(record, tmp_path):
    def make(episodes=None):
        meta = read_dataset_meta(tmp_path / "dataset")
        return Source(tmp_path / "dataset", meta, select_episodes(meta.episodes, episodes))

    record(tmp_path / "dataset", (3, 2, 4), limits=SizeLimits(1, 1, 1))
    return make


def stored_files(root) -> list[bytes]:
    tables = [pq.read_table(path) for path in sorted((root / "data").rglob("*.parquet"))]
    return [value["bytes"] for table in tables for value in table[KEY].to_pylist()]


def test_rows_of_all_files_come_in_the_order_asked_for(source):
    files = stored_files(source().root)
    rows = np.array([0, 2, 3, 8])
    assert [data for _, data in EmbeddedImageReader(source()).read(KEY, rows)] == [
        files[n] for n in rows
    ]


def test_one_large_row_group_is_read_as_well(source):
    files = stored_files(source().root)
    for path in (source().root / "data").rglob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table, path, row_group_size=2)
    assert [data for _, data in EmbeddedImageReader(source()).read(KEY, np.arange(9))] == files


def test_what_is_kept_is_bounded(source, monkeypatch):
    monkeypatch.setattr(stored_bytes, "_MAX_HELD_BYTES", 1)
    stored = EmbeddedImageReader(source())
    assert len(list(stored.read(KEY, np.arange(9)))) == 9
    assert len(stored._held) == 1


def test_nothing_kept_travels_to_another_process(source):
    stored = EmbeddedImageReader(source())
    size = len(pickle.dumps(stored))
    first = list(stored.read(KEY, np.arange(9)))
    assert len(pickle.dumps(stored)) == size
    assert list(pickle.loads(pickle.dumps(stored)).read(KEY, np.arange(9))) == first
