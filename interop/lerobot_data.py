"""LeRobot's datasets: read item by item, recorded, merged."""

from pathlib import Path
from typing import Any

from lerobot.datasets.dataset_tools import merge_datasets
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from safetensors.numpy import load_file
from safetensors.torch import save_file
from torch import Tensor

BACKEND = "pyav"
NAME = "local/dataset"
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


def merge(roots: list[str], out: str) -> dict[str, Any]:
    """Merge datasets with LeRobot's own tool."""
    sources = [
        LeRobotDataset(f"{NAME}-{number}", root=root, video_backend=BACKEND)
        for number, root in enumerate(roots)
    ]
    merged = merge_datasets(sources, output_repo_id=f"{NAME}-merged", output_dir=Path(out))
    return {"episodes": merged.num_episodes}
