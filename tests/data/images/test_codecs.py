"""Names of codecs."""

import pytest

from manyhands.data.images.codecs import codec_name


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("mp4v", "mpeg4"),
        ("mp4v.20.9", "mpeg4"),
        ("avc1.64001f", "h264"),
        ("libx264", "h264"),
        ("H.265", "hevc"),
        ("hvc1", "hevc"),
        ("libsvtav1", "av1"),
        ("av01.0.05M.08", "av1"),
        ("av1", "av1"),
        ("other", "other"),
    ],
)
def test_containers_and_encoders_name_the_same_format(name, form):
    assert codec_name(name) == form
