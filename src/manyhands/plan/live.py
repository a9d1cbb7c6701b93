"""How many bytes tensors take while something computes, without the tensors."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

BLOCK = 512
"""Bytes that a GPU's memory is handed out in."""


class LiveBytes(TorchDispatchMode):
    """Counts the memory of every tensor that is made, for as long as it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0
        """The most there ever was at a time since this was last forgotten."""
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self.count(each for each in tree_leaves(made) if isinstance(each, Tensor))
        return made

    def count(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors that are there already, too; one that is known is not counted again."""
        for tensor in tensors:
            memory = tensor.untyped_storage()
            if memory in self._known:
                continue
            self._known.add(memory)
            size = in_blocks(memory.nbytes())
            weakref.finalize(memory, self._release, size).atexit = False
            self.now += size
            self.most = max(self.most, self.now)

    def forget_most(self) -> None:
        """Look for the most from here on."""
        self.most = self.now

    def _release(self, size: int) -> None:
        self.now -= size


def in_blocks(size: int) -> int:
    """What a tensor of some bytes takes of a GPU's memory."""
    return -(-size // BLOCK) * BLOCK
