"""The cameras of a dataset as a table."""

from contextlib import closing
from pathlib import Path

import av

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.meta import DatasetMeta
from manyhands.report.axes import short
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped

MAX_CAMERAS = 40


def camera_table(root: Path, meta: DatasetMeta) -> Table | None:
    """Resolution, codec and frame rate of every camera; None without any."""
    cameras = {key: each for key, each in meta.info.features.items() if each.is_camera}
    if not cameras:
        return None
    rows = []
    for key, feature in [*cameras.items()][:MAX_CAMERAS]:
        channels, height, width = feature.channel_first_shape
        kind = "depth" if feature.is_depth else "gray" if channels == 1 else "color"
        stored, rate = "images in the table", meta.info.fps
        if feature.dtype == names.VIDEO:
            stored, rate = _stream(root / meta.episodes.video_files[key].paths[0], rate)
        rows.append(
            TableRow([clipped(key, 80), f"{width} × {height}", kind, stored, f"{short(rate)}"])
        )
    columns = [
        Column("camera"),
        Column("resolution"),
        Column("images"),
        Column("stored as"),
        Column("frames per second", is_number=True),
    ]
    return Table(columns=columns, rows=rows)


def _stream(path: Path, rate: float) -> tuple[str, float]:
    """Codec and frame rate of a video file; the declared rate where the file has none."""
    try:
        with closing(av.open(str(path), "r")) as file:
            stream = file.streams.video[0]
            codec, pixels = stream.codec_context.name, stream.codec_context.pix_fmt
            text = ", ".join(filter(None, [CODECS.get(codec, codec), pixels]))
            return text, float(stream.average_rate or rate)
    except (av.FFmpegError, OSError, ValueError, IndexError):
        return f"unreadable: {path.name}", rate


CODECS = {"libdav1d": "av1", "libaom-av1": "av1"}
"""Codecs by the decoders that FFmpeg names instead."""
