"""The parts of a network whose operations are worth compiling into fused kernels."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


class Regions:
    """The parts that a network names, or all of it."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    @contextmanager
    def compiled(self) -> Iterator[None]:
        """Run the parts compiled for a while; each is compiled when it runs first."""
        # Takes long to import, and most runs never need it.
        from torch._inductor import config as inductor

        parts = parts_of(self._network)
        for part in parts:
            part.compile(dynamic=False)
        try:
            # Dropout as ever: compiled kernels would draw other numbers.
            with inductor.patch(fallback_random=True):
                yield
        finally:
            for part in parts:
                part._compiled_call_impl = None

    def compile_ahead(self, run: Callable[[nn.Module], object]) -> None:
        """Compile what `run` runs of a network, by a copy, while the network itself is in use."""
        twin = copy.deepcopy(self._network)
        with Regions(twin).compiled():
            run(twin)
        torch.cuda.synchronize()


def parts_of(network: nn.Module) -> list[nn.Module]:
    """The outermost modules of the kinds that a network names for it."""
    kinds = getattr(type(network), "compile_units", None)
    if kinds is None:
        return [network]
    return [module for module in network.modules() if isinstance(module, kinds)]
