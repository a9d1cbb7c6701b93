"""Columns become features as the mapping says, or the mapping is rejected."""

import numpy as np
import pytest

from manyhands.data.importing.formats import open_import_source
from manyhands.data.importing.mapping import (
    FeatureMapping,
    check_mapping,
    parse_parts,
    read_mapping_file,
    stored_as,
)
from manyhands.data.importing.source import Column
from manyhands.errors import ConfigError, DatasetError

COLUMNS = {
    "a": Column("float64", (4,)),
    "b": Column("int64", ()),
    "grid": Column("float32", (2, 3)),
    "image": Column("uint8", (16, 24, 3)),
    "dim": Column("float32", (3, 16, 24), pixel_scale=255.0),
}


def mapping_of(**features: str) -> FeatureMapping:
    return FeatureMapping({key: parse_parts(each) for key, each in features.items()}, task="go")


def test_vectors_are_joined_and_cut():
    mapping = mapping_of(action="a[1:3] + b", count="b", grid="grid")
    declared = mapping.declared(COLUMNS)
    assert [(each["dtype"], each["shape"]) for each in declared.values()] == [
        ("float32", [3]),
        ("int64", [1]),
        ("float32", [2, 3]),
    ]
    values = {"a": np.arange(4.0), "b": np.int64(7), "grid": np.ones((2, 3), np.float32)}
    frame = mapping.frame(values, COLUMNS)
    assert frame["action"].tolist() == [1, 2, 7]
    assert (frame["count"].tolist(), frame["count"].dtype) == ([7], np.int64)
    assert frame["grid"].shape == (2, 3)
    assert mapping.document()["features"]["action"] == "a[1:3] + b"


def test_images_become_bytes_with_red_first():
    image = np.arange(16 * 24 * 3, dtype=np.uint8).reshape(16, 24, 3)
    dim = (image / np.float32(255)).transpose(2, 0, 1)
    features = mapping_of(one="image", two="dim").features
    frame = FeatureMapping(features).frame({"image": image, "dim": dim}, COLUMNS)
    np.testing.assert_array_equal(frame["one"], image)
    np.testing.assert_array_equal(frame["two"], image)
    frame = FeatureMapping(features, color_order="bgr").frame({"image": image, "dim": dim}, COLUMNS)
    np.testing.assert_array_equal(frame["one"], image[..., ::-1])


def test_pixels_beyond_the_scale_are_an_error():
    mapping = mapping_of(one="dim")
    with pytest.raises(DatasetError, match="values from 0 to 2; expected are 0 to 1"):
        bad = np.linspace(0, 2, 16 * 24 * 3, dtype=np.float32).reshape(3, 16, 24)
        mapping.frame({"dim": bad}, COLUMNS)


def test_what_cannot_be_a_video_is_stored_as_images():
    assert stored_as(Column("uint8", (16, 24, 3)), "video") == "video"
    assert stored_as(Column("uint8", (17, 24, 3)), "video") == "image"
    assert stored_as(Column("uint8", (16, 24, 1)), "video") == "image"


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"action": "actoin"}, "has no column actoin"),
        ({"action": "data/action[5:9]"}, r"action\[5:9\] selects nothing of a column of 2 float32"),
        ({"action": "data/action + data/img"}, "only vectors can be joined"),
        ({"observation.images.top": "data/state"}, "is no color image"),
    ],
)
def test_a_wrong_mapping_is_told_with_what_the_file_holds(written, features, message):
    source = open_import_source(written("zarr"))
    with pytest.raises(DatasetError, match=message) as caught:
        check_mapping(mapping_of(**features), source)
    columns = "data/action (2 float32), data/img (16x24x3 float32), data/state (5 float32)"
    assert str(caught.value).endswith(f"its columns are: {columns}")


def test_a_task_must_be_text(written):
    source = open_import_source(written("zarr"))
    features = {"action": parse_parts("data/action")}
    with pytest.raises(DatasetError, match="data/state is no text"):
        check_mapping(FeatureMapping(features, task_column="data/state"), source)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "cannot be read as YAML"),
        ("fps: 3", "must have the entry features"),
        ("features: {}\nfsp: 3", "unknown entry fsp"),
        ("features: {}\nfps: 'x'", "fps='x' must be of type int"),
    ],
)
def test_a_wrong_mapping_file_is_told(tmp_path, text, message):
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_mapping_file(tmp_path / "map.yaml")


def test_a_column_must_be_named():
    with pytest.raises(ConfigError, match="a column is missing in 'a \\+  \\+ b'"):
        parse_parts("a +  + b")
