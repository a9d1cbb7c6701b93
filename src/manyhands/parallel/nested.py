"""Values nested in dictionaries and tuples, such as the inputs of a network."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same dictionaries and tuples with everything else changed; a list is a leaf."""
    if isinstance(value, dict):
        return {key: map_leaves(inner, change) for key, inner in value.items()}
    if isinstance(value, tuple):
        changed = [map_leaves(inner, change) for inner in value]
        # A named tuple takes its values one by one.
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)
    return change(value)


def to_device(value: Any, device: torch.device) -> Any:
    """The same values with all tensors on a device, copied asynchronously from pinned memory."""

    def move(leaf: Any) -> Any:
        return leaf.to(device, non_blocking=True) if isinstance(leaf, Tensor) else leaf

    return map_leaves(value, move)
