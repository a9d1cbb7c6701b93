"""Vision tokens as stored in files: bfloat16, which numpy lacks, as its bits."""

import torch
from torch import Tensor

_BITS = torch.int16


def storable(tokens: Tensor) -> Tensor:
    """Tokens in a dtype of numpy."""
    return tokens.view(_BITS) if tokens.dtype is torch.bfloat16 else tokens


def restored(tokens: Tensor) -> Tensor:
    """Tokens in their original dtype."""
    return tokens.view(torch.bfloat16) if tokens.dtype is _BITS else tokens
