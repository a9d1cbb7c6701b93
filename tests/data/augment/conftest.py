"""Pictures to transform."""

import pytest
import torch
from torch import Tensor


@pytest.fixture(scope="session")
def pictures() -> Tensor:
    """Four samples of two different frames, colorful and neither black nor white anywhere."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(4, 6, 5, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (20, 24), mode="bilinear")
    return (0.1 + 0.8 * smooth).view(4, 2, 3, 20, 24)


@pytest.fixture(scope="session")
def pixels():
    """Makes a picture of one row, one sample and one frame from its colors."""

    def make(*colors: tuple[float, float, float]) -> Tensor:
        return torch.tensor(colors).T.reshape(1, 1, 3, 1, -1)

    return make


@pytest.fixture(scope="session")
def colors():
    """The colors of a picture of one row."""
    return lambda pictures: pictures.reshape(3, -1).T.tolist()
