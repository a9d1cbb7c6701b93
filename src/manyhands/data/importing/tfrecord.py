"""TFRecord files and the examples in them, without TensorFlow.

A file is a sequence of records: length, checksum of the length, bytes, checksum of the bytes. The
bytes are a protocol buffer, `tf.train.Example`: named lists of bytes, floats or integers.
"""

import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.importing.packages import required
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.unusable_file import check_file

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_PURPOSE = "reading TFRecord files"


def record_offsets(path: Path) -> list[int]:
    """Where the records of a file begin; only their headers are read."""
    check_file(path)
    size, offsets, place = path.stat().st_size, [], 0
    with path.open("rb") as file:
        while place < size:
            file.seek(place)
            length = _length(path, file.read(_HEADER.size), place)
            offsets.append(place)
            place += _HEADER.size + length + _CHECKSUM.size
    if place != size:
        raise _damaged(path, f"record {len(offsets) - 1} is truncated")
    return offsets


def read_record(path: Path, offset: int) -> bytes:
    """The bytes of the record that begins there, compared with their checksum."""
    with path.open("rb") as file:
        file.seek(offset)
        length = _length(path, file.read(_HEADER.size), offset)
        content, stored = file.read(length), file.read(_CHECKSUM.size)
    if len(stored) < _CHECKSUM.size or _CHECKSUM.unpack(stored)[0] != _checksum(content):
        raise _damaged(path, f"the record at byte {offset} does not match its checksum")
    return content


def parse_example(content: bytes) -> dict[str, Any]:
    """The lists of an example by name: arrays of numbers, or lists of bytes."""
    example = _example_type()()
    try:
        example.ParseFromString(content)
    except required("google.protobuf.message", _PURPOSE).DecodeError as error:
        raise DatasetError(f"a record is no tf.train.Example: {error}") from None
    return {name: _values(each) for name, each in example.features.feature.items()}


def _values(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    if kind == "bytes_list":
        return list(feature.bytes_list.value)
    if kind == "float_list":
        return np.array(feature.float_list.value, dtype=np.float32)
    return np.array(feature.int64_list.value, dtype=np.int64)


def _length(path: Path, header: bytes, place: int) -> int:
    if len(header) < _HEADER.size:
        raise _damaged(path, f"the record at byte {place} is truncated")
    length, stored = _HEADER.unpack(header)
    if stored != _checksum(header[:8]):
        raise _damaged(path, f"the length at byte {place} does not match its checksum")
    return int(length)


def _checksum(content: bytes) -> int:
    crc = required("google_crc32c", _PURPOSE).value(content)
    return int((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _damaged(path: Path, reason: str) -> DatasetError:
    return DatasetError(f"{path} is damaged: {reason}. Copy or download the file again")


@cache
def _example_type() -> Any:
    """The message class of `tf.train.Example`, described field by field."""
    descriptors = required("google.protobuf.descriptor_pb2", _PURPOSE)
    pool = required("google.protobuf.descriptor_pool", _PURPOSE).DescriptorPool()
    field = descriptors.FieldDescriptorProto
    file = descriptors.FileDescriptorProto(name="example.proto", package="e", syntax="proto3")
    for name, kind in (
        ("BytesList", field.TYPE_BYTES),
        ("FloatList", field.TYPE_FLOAT),
        ("Int64List", field.TYPE_INT64),
    ):
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, type=kind, label=field.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    kinds = [("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")]
    for number, (name, kind) in enumerate(kinds, start=1):
        _add_message(feature, name, number, kind).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    _add_message(entry, "value", 2, "Feature")
    _add_message(features, "feature", 1, "Features.FeatureEntry").label = field.LABEL_REPEATED
    _add_message(file.message_type.add(name="Example"), "features", 1, "Features")
    pool.AddSerializedFile(file.SerializeToString())
    factory = required("google.protobuf.message_factory", _PURPOSE)
    return factory.GetMessageClass(pool.FindMessageTypeByName("e.Example"))


def _add_message(owner: Any, name: str, number: int, kind: str) -> Any:
    field = required("google.protobuf.descriptor_pb2", _PURPOSE).FieldDescriptorProto
    return owner.field.add(
        name=name,
        number=number,
        type=field.TYPE_MESSAGE,
        type_name=f".e.{kind}",
        label=field.LABEL_OPTIONAL,
    )
