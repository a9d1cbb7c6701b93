"""LeRobot's datasets: read item by item, recorded, merged."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.video.reformatter import VideoReformatter
from lerobot.datasets.dataset_tools import merge_datasets
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.scripts.augment_dataset_quantile_stats import compute_quantile_stats_for_dataset
from safetensors.numpy import load_file
from safetensors.torch import save_file
from torch import Tensor

BACKEND = "pyav"
NAME = "local/dataset"
BIT_EXACT = 0x10 | 0x40000 | 0x80000
"""swscale's POINT | ACCURATE_RND | BITEXACT: its C code, which no processor replaces."""
Windows = dict[str, list[float]] | None


def read_items(root: str, windows: Windows, episodes: list[int] | None, out: str) -> dict[str, Any]:
    """Read every item; tensors go to a file by `<item>/<key>`, texts come back."""
    dataset = LeRobotDataset(
        NAME,
        root=root,
        episodes=episodes,
        delta_timestamps=windows,
        video_backend=BACKEND,
        return_uint8=True,
    )
    items = [dataset[number] for number in range(len(dataset))]
    tensors = {
        f"{number}/{key}": value.contiguous()
        for number, item in enumerate(items)
        for key, value in item.items()
        if isinstance(value, Tensor)
    }
    save_file(tensors, out)
    texts = [{key: each for key, each in item.items() if isinstance(each, str)} for item in items]
    return {"texts": texts}


def record(root: str, fps: int, features: dict[str, Any], episodes: list[str]) -> dict[str, Any]:
    """Record episodes from files of stacked values by feature; the task is in the file's name."""
    dataset = LeRobotDataset.create(NAME, fps, features, root=root, video_backend=BACKEND)
    for file in episodes:
        columns = load_file(file)
        for number in range(len(columns["action"])):
            frame = {key: values[number] for key, values in columns.items()}
            dataset.add_frame({**frame, "task": Path(file).stem})
        dataset.save_episode(parallel_encoding=False)
    dataset.finalize()
    return {"episodes": dataset.num_episodes}


def convert_frames(root: str, out: str) -> dict[str, Any]:
    """Convert every frame of every video file to RGB twice, by PyAV's default and bit-exactly.

    Tensors (frame, height, width, channel) go to a file by `default/<path>` and
    `bit_exact/<path>`.
    """
    converted = {}
    for path in sorted(Path(root).glob("videos/**/*.mp4")):
        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
        name = path.relative_to(root)
        # LeRobot's decoder makes this very call.
        default = [frame.to_ndarray(format="rgb24") for frame in frames]
        converted[f"default/{name}"] = torch.from_numpy(np.stack(default))
        converted[f"bit_exact/{name}"] = torch.from_numpy(np.stack([*map(_bit_exact, frames)]))
    save_file(converted, out)
    return {"files": len(converted) // 2}


def _bit_exact(frame: av.VideoFrame) -> np.ndarray:
    size = (frame.width, frame.height)
    return VideoReformatter().reformat(frame, *size, "rgb24", interpolation=BIT_EXACT).to_ndarray()


def compute_camera_stats(root: str) -> dict[str, Any]:
    """Compute the statistics of all cameras from decoded frames."""
    dataset = LeRobotDataset(NAME, root=root, video_backend=BACKEND)
    stats = compute_quantile_stats_for_dataset(dataset)
    return {
        f"{key} {name}": np.ravel(value).tolist()
        for key in dataset.meta.camera_keys
        for name, value in stats[key].items()
    }


def merge(roots: list[str], out: str) -> dict[str, Any]:
    """Merge datasets with LeRobot's own tool."""
    sources = [
        LeRobotDataset(f"{NAME}-{number}", root=root, video_backend=BACKEND)
        for number, root in enumerate(roots)
    ]
    merged = merge_datasets(sources, output_repo_id=f"{NAME}-merged", output_dir=Path(out))
    return {"episodes": merged.num_episodes}
