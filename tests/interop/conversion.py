"""How far LeRobot's conversion of video frames to RGB is from the bit-exact one, measured.

swscale has code of its own for some processors, which rounds otherwise than its C code: on x86-64
by up to 3 levels of 255, on aarch64 not at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

Frames = dict[str, Tensor]
"""Those of each video file (frame, height, width, channel), by its path in the dataset."""


@dataclass(frozen=True)
class ConvertedFrames:
    """All frames of a dataset's video files, converted by LeRobot's PyAV."""

    default: Frames
    bit_exact: Frames

    @property
    def largest_difference(self) -> int:
        """Of any pixel, in levels; none where there are no videos."""
        pairs = ((self.default[path], frames) for path, frames in self.bit_exact.items())
        return max((int(_differences(*pair).max()) for pair in pairs), default=0)

    @property
    def least_change(self) -> int:
        """From a frame to the next one, at the pixel that changes most."""
        return min(
            int(_differences(frames[1:], frames[:-1]).flatten(1).amax(1).min())
            for frames in self.bit_exact.values()
            if len(frames) > 1
        )


def convert_frames(root: Path, lerobot: Callable[..., Any]) -> ConvertedFrames:
    """Let LeRobot's PyAV convert all frames of a dataset, by its default and bit-exactly."""
    out = root.with_name(f"{root.name}-converted.safetensors")
    lerobot("convert_frames", root=root, out=out)
    tensors = load_file(out)
    kinds = ("default", "bit_exact")
    return ConvertedFrames(
        *(
            {
                name.removeprefix(f"{kind}/"): frames
                for name, frames in tensors.items()
                if name.startswith(f"{kind}/")
            }
            for kind in kinds
        )
    )


def _differences(one: Tensor, other: Tensor) -> Tensor:
    return (one.int() - other.int()).abs()
