"""Video files opened."""

import av
import pytest

from manyhands.data.images.video import open_video


def test_a_damaged_text_inside_a_file_does_not_matter(plain_root, tmp_path):
    (video,) = (plain_root / "videos").rglob("*.mp4")
    content = video.read_bytes().replace(b"Lavf", b"\xff\xfe\xfd\xfc")
    assert b"\xff\xfe\xfd\xfc" in content
    (tmp_path / "video.mp4").write_bytes(content)
    with open_video(str(tmp_path / "video.mp4")) as container:
        assert len(list(container.decode(video=0))) == 14


def test_what_is_no_video_is_refused(tmp_path):
    (tmp_path / "video.mp4").write_bytes(b"nothing")
    with pytest.raises(av.FFmpegError):
        open_video(str(tmp_path / "video.mp4"))
