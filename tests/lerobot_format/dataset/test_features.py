"""What a dataset declares of one feature."""

from typing import Any

import pytest

from manyhands.lerobot_format.dataset.features import (
    DepthScale,
    Feature,
    feature_document,
    parse_features,
)


def parse(**entry: Any) -> Feature:
    return parse_features({"a": {"dtype": "video", "shape": [4, 6, 1], **entry}})["a"]


def test_a_feature_comes_back_from_its_document():
    feature = Feature("video", (4, 6, 3), ["height", "width", "channels"], {"video.fps": 10})
    assert parse_features({"a": feature_document(feature)}) == {"a": feature}


def test_what_other_tools_add_is_passed_over():
    feature = parse(dtype="float32", shape=[2], names={"motors": ["x", "y"]}, fps=30, note=[None])
    assert feature == Feature("float32", (2,), {"motors": ["x", "y"]})


@pytest.mark.parametrize(
    ("labels", "shape"),
    [
        (["height", "width", "channels"], (3, 4, 6)),
        (("height", "width", "channel"), (3, 4, 6)),
        (["channels", "height", "width"], (4, 6, 3)),
        ({"axes": ["height", "width", "channels"]}, (4, 6, 3)),
        (None, (4, 6, 3)),
    ],
)
def test_channels_come_first_when_the_third_axis_is_named_so(labels, shape):
    assert Feature("video", (4, 6, 3), labels).channel_first_shape == shape
    assert Feature("float32", (4, 6, 3), labels).channel_first_shape == (4, 6, 3)


@pytest.mark.parametrize(
    "entry",
    [
        {"info": {"is_depth_map": True}},
        {"info": {"video.is_depth_map": True}},
        {"video_info": {"video.is_depth_map": True}},
    ],
)
def test_depth_is_recognized_wherever_it_is_flagged(entry):
    assert parse(**entry).is_depth
    assert not parse(info={"is_depth_map": False}, video_info=None).is_depth


def test_depth_has_a_unit_and_a_scale():
    facts = {"is_depth_map": True, "depth_unit": "mm", "video.depth_max": 4.0}
    feature = parse(info=facts)
    assert (feature.depth_unit, feature.depth_scale) == ("mm", DepthScale(max=4.0))
    assert parse(info={"is_depth_map": True}).depth_unit is None


def test_what_is_told_of_other_cameras_is_no_depth_to_check():
    assert not parse(info={"depth_unit": 3, "video.shift": None}).is_depth


@pytest.mark.parametrize("dtype", ["float32", "bool", "uint8", "<f4", "double", "int64"])
def test_types_of_numbers_are_known_by_any_name(dtype):
    assert parse(dtype=dtype).is_number


@pytest.mark.parametrize("dtype", ["language", "string"])
def test_texts_and_annotations_are_no_numbers(dtype):
    assert not parse(dtype=dtype, shape=[1]).is_number


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"dtype": "float33"}, "feature a: unknown dtype 'float33'"),
        ({"dtype": None}, "unknown dtype"),
        ({"dtype": ["float32"]}, "unknown dtype"),
        ({"dtype": "complex64"}, "unknown dtype"),
        ({"dtype": "datetime64"}, "unknown dtype"),
        ({"dtype": "f4,f4"}, "unknown dtype"),
        ({"dtype": "(9999,9999)f4"}, "unknown dtype"),
        ({"dtype": "f" + "9" * 40}, "unknown dtype"),
        ({"shape": None}, "shape must be a list"),
        ({"shape": {"0": 1}}, "shape must be a list"),
        ({"shape": "46"}, "shape must be a list"),
        ({"shape": [4, 0, 1]}, "a size in shape must be an integer of at least 1, not 0"),
        ({"shape": [4, -6, 1]}, "not -6"),
        ({"shape": [4, 6.0, 1]}, "not 6.0"),
        ({"shape": [4, True, 1]}, "not True"),
        ({"shape": [4, None, 1]}, "not None"),
        ({"shape": [4, float("nan"), 1]}, "not nan"),
        ({"shape": [4, [6], 1]}, r"not \[6\]"),
        ({"shape": [10**30]}, "must be an integer"),
        ({"shape": [2**20, 2**20], "dtype": "int8"}, "too large for a row"),
        ({"shape": [1] * 6, "dtype": "int8"}, "1 to 5 dimensions, not 6"),
        ({"shape": [1]}, "a camera needs a shape of three sizes"),
        ({"info": [1]}, "info must be an object"),
        ({"video_info": "av1"}, "video_info must be an object"),
        ({"info": {"is_depth_map": "false"}}, "is_depth_map must be true or false"),
        ({"info": {"is_depth_map": True, "depth_unit": "cm"}}, "must be mm or m, not 'cm'"),
        ({"info": {"is_depth_map": True, "video.shift": "x"}}, "feature a: video.shift must be"),
    ],
)
def test_faulty_entries_are_refused_by_name(entry, fault):
    with pytest.raises(ValueError, match=fault):
        parse(**entry)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "/a", "a\0", "a\nb", "\ud800"])
def test_names_that_could_be_taken_for_paths_are_refused(key):
    with pytest.raises(ValueError, match="feature name"):
        parse_features({key: {"dtype": "int8", "shape": [1]}})


@pytest.mark.parametrize("document", [None, [], "a", {"a": None}, {"a": []}])
def test_anything_but_an_object_of_objects_is_refused(document):
    with pytest.raises(ValueError, match="must be an object"):
        parse_features(document)
