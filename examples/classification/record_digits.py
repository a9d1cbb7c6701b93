"""Records the digits as LeRobot datasets: a camera, and an action with a one for the class.

python record_digits.py data/digits
"""

import sys
from pathlib import Path

import torch
from digits import load_digits, read_arguments
from torch.utils.data import TensorDataset

from manyhands.data.writing.writer import DatasetWriter

NUM_CLASSES = 10


def main() -> None:
    """Record the training set and the test set."""
    arguments, folders = read_arguments(__doc__)
    if len(folders) != 1:
        sys.exit("name one folder for the datasets: python record_digits.py data/digits")
    train_set, test_set = load_digits(arguments.data)
    for name, samples in (("train", train_set), ("test", test_set)):
        record(Path(folders[0]) / name, samples)


def record(root: Path, samples: TensorDataset) -> None:
    """Record samples as the frames of one episode."""
    images, labels = samples.tensors
    low, high = images.min(), images.max()
    gray = ((images - low) / (high - low) * 255).round().to(torch.uint8)
    colored = gray.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()
    actions = torch.eye(NUM_CLASSES)[labels].numpy()
    names = ["height", "width", "channels"]
    features = {
        "observation.image": {"dtype": "image", "shape": colored.shape[1:], "names": names},
        "action": {"dtype": "float32", "shape": (NUM_CLASSES,), "names": None},
    }
    with DatasetWriter.create(root, 10, features) as writer:
        for image, action in zip(colored, actions, strict=True):
            writer.add_frame({"observation.image": image, "action": action, "task": "classify"})
        writer.save_episode()
    print(f"{len(labels)} digits in {root}")


if __name__ == "__main__":
    main()
