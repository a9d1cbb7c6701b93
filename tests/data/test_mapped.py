"""Arrays in files."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from manyhands.data.columns import MappedArray


def test_entries_come_in_the_order_asked_for_and_travel_as_a_path(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    (tmp_path / "values").write_bytes(values.tobytes() + b"more")
    array = MappedArray(tmp_path / "values", values.shape, values.dtype)
    places, out = np.array([[49, 0], [7, 7]]), np.empty((2, 2, 3), np.float32)
    array.take(places, out)
    assert np.array_equal(out, values[places])
    copy = pickle.loads(pickle.dumps(array))
    assert len(pickle.dumps(array)) < 1000
    assert np.array_equal(copy.values, values)


def test_an_array_without_entries_needs_no_map(tmp_path):
    (tmp_path / "values").touch()
    assert MappedArray(tmp_path / "values", (0, 3), np.dtype("f4")).values.shape == (0, 3)


def test_nothing_can_be_written_through_it(tmp_path):
    (tmp_path / "values").write_bytes(bytes(8))
    array = MappedArray(tmp_path / "values", (2,), np.dtype("f4"))
    with pytest.raises(ValueError, match="read-only"):
        array.values[0] = 1


GROWTH = """
import sys, numpy as np, psutil
from pathlib import Path
from manyhands.data.columns import MappedArray
array = MappedArray(Path(sys.argv[1]), (400, 1 << 20), np.dtype("u1"))
out, memory = np.empty((4, 1 << 20), np.uint8), psutil.Process().memory_info
array.take(np.arange(4), out)
before = memory().rss
for start in range(0, 400, 4):
    array.take(np.arange(start, start + 4), out)
print((memory().rss - before) >> 20)
"""


def test_reading_much_does_not_make_the_process_grow(tmp_path):
    with (tmp_path / "values").open("wb") as file:
        for _ in range(400):
            file.write(bytes(1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, tmp_path / "values"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert int(done.stdout) < 100
