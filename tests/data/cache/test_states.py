"""One byte per frame, seen by all at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.cache.store_files import ABSENT, DURABLE, WRITTEN, FrameStates


@pytest.fixture
def path(tmp_path):
    (tmp_path / "state.bin").write_bytes(bytes(30))
    return tmp_path / "state.bin"


def test_a_mark_is_seen_by_whoever_has_the_file_open(path):
    mine, others = FrameStates(path), FrameStates(path)
    mine.mark(4, WRITTEN)
    mine.mark(6, DURABLE)
    assert others.are_present(np.array([3, 4, 5, 6])).tolist() == [False, True, False, True]
    assert others.is_present(4) and not others.is_present(5)
    assert others.written().tolist() == [4]
    mine.mark(4, ABSENT)
    assert not others.is_present(4)


@given(frames=st.sets(st.integers(0, 29)))
def test_marking_many_touches_no_others(tmp_path_factory, frames):
    path = tmp_path_factory.mktemp("states") / "state.bin"
    path.write_bytes(bytes(30))
    FrameStates(path).mark_all(np.array(sorted(frames), dtype=np.int64), DURABLE)
    assert [*path.read_bytes()] == [DURABLE * (frame in frames) for frame in range(30)]
