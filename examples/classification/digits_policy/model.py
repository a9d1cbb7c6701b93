"""The classifier: two convolutions, max pooling, two dropouts, two linear layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Net(nn.Module):
    """Logits of ten digits from square images of one channel."""

    def __init__(self, image_size: int, has_dropout: bool = True) -> None:
        super().__init__()
        pooled_size = (image_size - 4) // 2
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25 * has_dropout)
        self.fc1 = nn.Linear(64 * pooled_size**2, 128)
        self.dropout2 = nn.Dropout(0.5 * has_dropout)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (samples, 10) of images (samples, 1, size, size)."""
        maps = functional.relu(self.conv2(functional.relu(self.conv1(images))))
        pooled = self.dropout1(functional.max_pool2d(maps, 2))
        hidden = functional.relu(self.fc1(torch.flatten(pooled, 1)))
        logits: Tensor = self.fc2(self.dropout2(hidden))
        return logits
