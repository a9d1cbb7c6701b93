"""Records that tensorboard writes, and every flipped bit in them."""

import numpy as np
import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from manyhands.data.importing.tfrecord import parse_example, read_record, record_offsets
from manyhands.errors import DatasetError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.tfrecord"
    with path.open("wb") as stream:
        writer = RecordWriter(stream)
        for content in (b"one", b"", b"three" * 9):
            writer.write(content)
        writer.flush()
    return path


def test_records_are_found_and_read(file):
    offsets = record_offsets(file)
    assert [read_record(file, offset) for offset in offsets] == [b"one", b"", b"three" * 9]


def test_every_flipped_byte_is_noticed(file):
    content = file.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 4
        file.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"a.tfrecord is damaged"):
            for offset in record_offsets(file):
                read_record(file, offset)


def test_a_truncated_file_is_noticed(file):
    content = file.read_bytes()
    for size in range(1, len(content)):
        file.write_bytes(content[:size])
        # A file that ends between two records is one with fewer records.
        if size not in (19, 35):
            with pytest.raises(DatasetError, match="truncated"):
                record_offsets(file)


def test_a_record_of_something_else_is_an_error():
    with pytest.raises(DatasetError, match=r"no tf.train.Example"):
        parse_example(b"something else")


def test_lists_of_every_kind_are_parsed(example):
    values = {
        "floats": np.array([1.5, -2], dtype=np.float32),
        "integers": np.array([-1, 2**40]),
        "bytes": [b"a", b"\0\xff"],
    }
    parsed = parse_example(example(values))
    np.testing.assert_array_equal(parsed["floats"], values["floats"])
    np.testing.assert_array_equal(parsed["integers"], values["integers"])
    assert parsed["bytes"] == values["bytes"]
    assert (parsed["floats"].dtype, parsed["integers"].dtype) == (np.float32, np.int64)
