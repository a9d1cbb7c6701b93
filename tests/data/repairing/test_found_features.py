"""Features are declared as the files have them."""

import pyarrow as pa
import pytest

from manyhands.data.images.image_files import encode_png
from manyhands.data.repairing.found_clips import VideoFacts
from manyhands.data.repairing.found_features import FeatureSources, found_features
from manyhands.data.repairing.report import RepairReport
from manyhands.lerobot_format import names

FACTS = VideoFacts(height=32, width=48, rate=10.0, num_frames=5, codec="av1")
RESERVED = {key: {"dtype": kind, "shape": [1]} for key, kind in names.RESERVED_FEATURES.items()}


def features_of(columns, declared, videos=None):
    report = RepairReport()
    sources = FeatureSources(pa.table(columns), videos or {})
    found = found_features({"features": RESERVED | declared}, sources, report)
    shapes = {key: (each.dtype, list(each.shape)) for key, each in found.items()}
    return shapes, [each.fault for each in report.repairs]


@pytest.mark.parametrize(
    ("column", "declared", "expected", "fault"),
    [
        ([[1.0, 2.0]], {"dtype": "float64", "shape": [2]}, ("float64", [2]), None),
        ([[1.0, 2.0]], {"dtype": "float64", "shape": [3]}, ("float64", [2]), "float64 3"),
        ([[1.0, 2.0]], {"dtype": "what", "shape": [2]}, ("float64", [2]), "unknown dtype"),
        ([[[1, 2], [3, 4]]], None, ("int64", [2, 2]), "not declared"),
        ([True], None, ("bool", [1]), "not declared"),
        (["text"], None, ("string", [1]), "not declared"),
        ([[["a"]]], None, None, "of no known type"),
        ([b"no image"], None, None, "of no known type"),
    ],
)
def test_columns_are_declared_as_stored(column, declared, expected, fault):
    shapes, faults = features_of({"a": column}, {} if declared is None else {"a": declared})
    assert shapes == ({} if expected is None else {"a": expected})
    assert faults == [] if fault is None else any(fault in each for each in faults)


def test_annotations_keep_their_feature():
    column = [[{"role": "user", "content": "go"}]]
    shapes, faults = features_of({"talk": column}, {"talk": {"dtype": "language", "shape": [1]}})
    assert (shapes, faults) == ({"talk": ("language", [1])}, [])


def test_images_have_the_size_of_the_first(picture):
    column = pa.array([{"bytes": encode_png(picture(16, 24, 0)), "path": None}])
    shapes, _ = features_of({"a": column}, {})
    assert shapes == {"a": ("image", [16, 24, 3])}


def test_cameras_have_the_size_of_their_videos():
    axes = ["height", "width", "channels"]
    declared = {"top": {"dtype": "video", "shape": [32, 48, 3], "names": axes}}
    assert features_of({}, declared, {"top": FACTS}) == ({"top": ("video", [32, 48, 3])}, [])
    declared["top"]["shape"] = [48, 32, 3]
    shapes, faults = features_of({}, declared, {"top": FACTS})
    assert shapes == {"top": ("video", [32, 48, 3])}
    assert faults == ["camera top is declared as 48x32x3"]


def test_a_feature_without_column_and_video_is_removed():
    shapes, faults = features_of({}, {"gone": {"dtype": "float32", "shape": [2]}})
    assert (shapes, faults) == ({}, ["feature gone has no column and no video"])
