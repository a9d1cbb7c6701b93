"""Memory shared between processes, divided into the arrays of batches."""

import gc
import multiprocessing

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic import write

from manyhands.data.batches import ArraySpec
from manyhands.data.loading import slots as slots_module
from manyhands.data.loading.slots import ALIGNMENT, Slots, batch_bytes

DTYPES = [np.dtype(name) for name in ("uint8", "bool", "int16", "float32", "float64", "int64")]
LAYOUTS = st.dictionaries(
    st.text("abc", min_size=1),
    st.builds(
        ArraySpec,
        st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple),
        st.sampled_from(DTYPES),
    ),
    max_size=5,
)
LAYOUT = {
    "picture": ArraySpec((3, 5, 5), np.dtype(np.uint8)),
    "state": ArraySpec((3, 2), np.dtype(np.float64)),
}


def values_of(slots: Slots, slot: int) -> set[float]:
    arrays = [slots.rows(slot), *slots.arrays(slot).values()]
    return {float(value) for array in arrays for value in np.unique(array)}


@given(layout=LAYOUTS, num_slots=st.integers(1, 4))
def test_every_array_has_a_place_of_its_own(layout, num_slots):
    slots = Slots(layout, 3, num_slots)
    for slot in range(num_slots):
        write(slots, slot, slot % 2)
    for slot in range(num_slots):
        assert values_of(slots, slot) == {slot % 2}
        arrays = slots.arrays(slot)
        assert {key: (each.shape, each.dtype) for key, each in arrays.items()} == layout
        assert all(each.ctypes.data % ALIGNMENT == 0 for each in arrays.values() if each.size)
    slots.close()


@given(layout=LAYOUTS)
def test_a_copy_of_the_bytes_holds_the_same_values(layout):
    slots = Slots(layout, 1, 2)
    random = np.random.default_rng(0)
    for array in slots.arrays(1).values():
        array[...] = random.integers(0, 2, array.shape)
    tensors = slots.tensors(slots.block(1).clone())
    assert tensors.keys() == layout.keys()
    for key, array in slots.arrays(1).items():
        assert torch.equal(tensors[key], torch.from_numpy(array))
    slots.close()


def test_the_memory_is_what_the_batches_take():
    assert batch_bytes(LAYOUT) == 128 + 64
    assert Slots(LAYOUT, 3, 4).num_bytes == 128 + 4 * batch_bytes(LAYOUT)


@pytest.mark.process
@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_a_child_process_writes_what_its_parent_reads(context):
    """Of loader processes that are spawned, test_stream.py tells the same."""
    slots = Slots(LAYOUT, 3, 2)
    write(slots, 0, 1)
    child = multiprocessing.get_context(context).Process(target=write, args=(slots, 1, 7))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert (values_of(slots, 0), values_of(slots, 1)) == ({1}, {7})
    slots.close()


def test_closing_twice_or_dropping_leaves_no_descriptor_and_no_memory():
    gc.collect()
    process = psutil.Process()
    before = process.num_fds()
    slots = Slots(LAYOUT, 3, 2)
    kept = slots.arrays(0)["state"]
    kept[...] = 5
    slots.close()
    slots.close()
    assert (kept == 5).all()
    del kept
    dropped = Slots(LAYOUT, 3, 2)
    del slots, dropped
    assert process.num_fds() == before


def test_a_file_serves_where_memory_cannot_go_without_a_name(monkeypatch):
    monkeypatch.delattr(slots_module.os, "memfd_create", raising=False)
    slots = Slots(LAYOUT, 3, 2)
    write(slots, 1, 9)
    assert values_of(slots, 1) == {9}
    slots.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_memory_that_cannot_be_page_locked_serves_as_well():
    slots = Slots(LAYOUT, 3, 2)
    assert slots.pin() is False
    write(slots, 1, 9)
    assert values_of(slots, 1) == {9}
