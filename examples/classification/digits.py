"""What all variants have in common: arguments, images of digits, the line of results.

MNIST is read from its four files in `--data`, compressed or not. Without them, the digits that come
with scikit-learn are used: 1,797 images of 8x8 pixels, every fifth of them for the test.
"""

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

MNIST_MEAN, MNIST_STD = 0.1307, 0.3081
DIGITS_MEAN, DIGITS_STD = 0.3053, 0.3760
MISSING = "needs the digits of scikit-learn, or the files of MNIST. Run: pip install scikit-learn"


def read_arguments(description: str | None) -> tuple[argparse.Namespace, list[str]]:
    """Arguments of all variants, and those that are left."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--data", type=Path, help="folder with the four files of MNIST")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per optimizer step")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=0.7, help="learning-rate factor per epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-dropout", action="store_true")
    return parser.parse_known_args()


def load_digits(folder: Path | None) -> tuple[TensorDataset, TensorDataset]:
    """Training and test set: normalized images (1, size, size) with their labels."""
    if folder is not None:
        return load_mnist(folder, "train"), load_mnist(folder, "t10k")
    try:
        from sklearn import datasets
    except ModuleNotFoundError:
        sys.exit(f"{Path(sys.argv[0]).name} {MISSING}")
    found = datasets.load_digits()
    images = normalized(found.images / 16, DIGITS_MEAN, DIGITS_STD)
    labels = torch.from_numpy(found.target).long()
    is_test = torch.arange(len(labels)) % 5 == 4
    return (
        TensorDataset(images[~is_test], labels[~is_test]),
        TensorDataset(images[is_test], labels[is_test]),
    )


def load_mnist(folder: Path, name: str) -> TensorDataset:
    """One of MNIST's two sets."""
    images = read_idx(find_file(folder, f"{name}-images*idx3-ubyte*"))
    labels = read_idx(find_file(folder, f"{name}-labels*idx1-ubyte*"))
    return TensorDataset(
        normalized(images / 255, MNIST_MEAN, MNIST_STD), torch.from_numpy(labels).long()
    )


def find_file(folder: Path, pattern: str) -> Path:
    """The file of a pattern in a folder or below it, as torchvision places them."""
    found = sorted(folder.rglob(pattern))
    if not found:
        sys.exit(f"--data={folder} has no file {pattern}. MNIST has four, also as .gz")
    return found[0]


def read_idx(path: Path) -> np.ndarray:
    """The array of bytes in a file of MNIST's format."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    num_axes = content[3]
    shape = np.frombuffer(content, ">u4", num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape).copy()


def normalized(images: np.ndarray, mean: float, std: float) -> torch.Tensor:
    """Images with a channel, at mean 0 and standard deviation 1."""
    return torch.from_numpy((images - mean) / std).float()[:, None]


def let_gloo_finish() -> None:
    """Wait for threads of gloo, which connects processes on CPUs, to release their tensors."""
    # Freeing a process group waits for its threads, which then wait for Python: a deadlock.
    time.sleep(0.3)


def result_line(epoch: int, num_correct: int, num_samples: int) -> str:
    """The result of an epoch on the test set."""
    accuracy = 100 * num_correct / num_samples
    return f"epoch {epoch + 1}: accuracy {accuracy:.2f} % ({num_correct} of {num_samples})"
