"""Tables in all the forms that other tools write them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.errors import DatasetError


def rewrite(root, change) -> None:
    for path in (root / "data").rglob("*.parquet"):
        pq.write_table(change(pq.read_table(path)), path)


def cast(key: str, kind: pa.DataType):
    def change(table: pa.Table) -> pa.Table:
        values = pa.array(table[key].to_pylist(), kind)
        return table.set_column(table.column_names.index(key), key, values)

    return change


FORMS = {
    "variable lists": cast("observation.state", pa.list_(pa.float32())),
    "large lists": cast("action", pa.large_list(pa.float64())),
    "doubles": cast("timestamp", pa.float64()),
    "double lists": cast("observation.state", pa.list_(pa.float64(), 4)),
    "lists of one": lambda table: table.set_column(
        table.column_names.index("next.reward"),
        "next.reward",
        pa.array([[value] for value in table["next.reward"].to_pylist()]),
    ),
    "narrow integers": cast("task_index", pa.int32()),
    "another order": lambda table: table.select(table.column_names[::-1]),
    "no metadata": lambda table: table.replace_schema_metadata(None),
    "more columns": lambda table: table.append_column("extra", pa.nulls(table.num_rows)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_in_another_form_holds_the_same_values(damaged_root, form):
    before = open_dataset(root=damaged_root).batch(range(5))
    rewrite(damaged_root, FORMS[form])
    after = open_dataset(root=damaged_root).batch(range(5))
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert np.array_equal(after[key], value), key


def test_arrays_of_a_registered_extension_type_are_read(damaged_root):
    class Array2D(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.list_(pa.list_(pa.float32())), "manyhands.tests.array2d")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, serialized):
            return cls()

    def change(table: pa.Table) -> pa.Table:
        storage = pa.array(table["observation.grid"].to_pylist(), Array2D().storage_type)
        column = pa.ExtensionArray.from_storage(Array2D(), storage)
        index = table.column_names.index("observation.grid")
        return table.set_column(index, "observation.grid", column)

    before = open_dataset(root=damaged_root).batch(range(5))["observation.grid"]
    pa.register_extension_type(Array2D())
    try:
        rewrite(damaged_root, change)
        after = open_dataset(root=damaged_root).batch(range(5))["observation.grid"]
    finally:
        pa.unregister_extension_type("manyhands.tests.array2d")
    assert np.array_equal(before, after)


def test_files_need_not_be_numbered_in_the_order_of_their_episodes(damaged_root):
    before = open_dataset(root=damaged_root)
    expected = before.batch(range(5))
    file = damaged_root / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(file)
    for column in ("data/chunk_index", "videos/observation.images.top/chunk_index"):
        index = table.column_names.index(column)
        table = table.set_column(index, column, pa.array([1, 0]))
    pq.write_table(table, file)
    for folder in ("data", "videos/observation.images.top"):
        first, second = (damaged_root / folder / f"chunk-00{number}" for number in (0, 1))
        first.rename(damaged_root / "moved")
        second.rename(first)
        (damaged_root / "moved").rename(second)
    after = open_dataset(root=damaged_root).batch(range(5))
    for key, value in expected.items():
        assert np.array_equal(after[key], value), key


def test_only_files_of_chosen_episodes_are_needed(damaged_root):
    (damaged_root / "data" / "chunk-001" / "file-000.parquet").unlink()
    assert len(open_dataset(root=damaged_root, episodes=[0])) == 3


@pytest.mark.parametrize("value", [0.5, float("nan"), 1e300])
def test_whole_numbers_must_be_whole(damaged_root, value):
    def change(table: pa.Table) -> pa.Table:
        values = pa.array([value] * table.num_rows)
        return table.set_column(table.column_names.index("frame_index"), "frame_index", values)

    rewrite(damaged_root, change)
    with pytest.raises(DatasetError, match=r"frame_index: .* is not an integer"):
        open_dataset(root=damaged_root)


def test_an_index_of_something_else_than_numbers_is_told(damaged_root):
    def change(table: pa.Table) -> pa.Table:
        values = pa.array([[1, 2]] * table.num_rows)
        return table.set_column(table.column_names.index("index"), "index", values)

    rewrite(damaged_root, change)
    with pytest.raises(DatasetError, match="column index must count from 0"):
        open_dataset(root=damaged_root)
