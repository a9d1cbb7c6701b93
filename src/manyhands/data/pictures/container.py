"""Video files opened for reading, in any release of PyAV."""

from typing import IO, Any

import av

# Up to release 18 PyAV reads all strings of a file and fails at one that is damaged.
_MAJOR = int(av.__version__.split(".")[0])
_TEXTS: dict[str, Any] = {"metadata_errors": "replace"} if _MAJOR < 19 else {}


def open_video(file: str | IO[bytes]) -> av.container.InputContainer:
    """Open a video file or its bytes; raises FFmpeg's error."""
    container: av.container.InputContainer = av.open(file, "r", **_TEXTS)
    return container
