"""Tokens of images as files keep them: those in bfloat16, which numpy lacks, as their bits."""

import torch
from torch import Tensor

_BITS = torch.int16


def storable(tokens: Tensor) -> Tensor:
    """Tokens in numbers that numpy knows."""
    return tokens.view(_BITS) if tokens.dtype is torch.bfloat16 else tokens


def restored(tokens: Tensor) -> Tensor:
    """Tokens as they were before they were stored."""
    return tokens.view(torch.bfloat16) if tokens.dtype is _BITS else tokens
