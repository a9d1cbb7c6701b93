"""Random numbers that are given instead of drawn; needs torch alone."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

DRAWING = ("randn", "randn_like", "normal", "randint", "_sample_dirichlet")
"""Operations by which LeRobot's policies draw in training."""


class GivenDraws(TorchDispatchMode):
    """Inside it, operations that draw return given tensors, in order; all must be used."""

    def __init__(self, draws: Sequence[Tensor]) -> None:
        super().__init__()
        self._left = list(draws)

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        name = operation.name().removeprefix("aten::").partition(".")[0]
        return self._given(name, result) if name in DRAWING else result

    def _given(self, name: str, drawn: Tensor) -> Tensor:
        if not self._left:
            raise ValueError(f"{name} of the shape {list(drawn.shape)} is one draw too many")
        given = self._left.pop(0)
        if name == "_sample_dirichlet":
            # Of the distribution Beta(a, b), the share of a and that of b.
            given = torch.stack([given, 1 - given], dim=-1)
        if given.shape != drawn.shape:
            shapes = f"{list(drawn.shape)} are drawn, {list(given.shape)} given"
            raise ValueError(f"shapes of {name} differ: {shapes}")
        return given.to(drawn.dtype)

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if kind is None and self._left:
            raise ValueError(f"{len(self._left)} draws were given but not used")
