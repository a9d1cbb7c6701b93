"""Names of video codecs: those of containers and encoders, and FFmpeg's own for the format."""

_FORMATS = {
    "av1": ("av01", "libsvtav1", "libaom-av1", "libdav1d", "av1_nvenc"),
    "h264": ("avc", "avc1", "avc3", "x264", "libx264", "h264_nvenc", "h.264"),
    "hevc": ("h265", "h.265", "hev1", "hvc1", "x265", "libx265", "hevc_nvenc"),
    "mpeg4": ("mp4v", "fmp4", "xvid", "divx", "dx50", "libxvid", "mpeg-4"),
    "mjpeg": ("mjpg", "jpeg"),
    "vp9": ("vp09", "libvpx-vp9"),
    "vp8": ("vp08", "libvpx"),
}
_FORMAT_OF = {name: form for form, others in _FORMATS.items() for name in others}


def codec_name(name: str) -> str:
    """The format's name by which FFmpeg reports a stream, for any usual name of it."""
    # Parameters follow a dot, as in avc1.64001f and mp4v.20.9.
    plain = name.strip().lower()
    return _FORMAT_OF.get(plain) or _FORMAT_OF.get(plain.split(".")[0], plain)
