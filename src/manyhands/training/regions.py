"""The parts of an update whose operations are worth compiling into fused kernels."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn
from torch.optim import Adam, Optimizer

from manyhands.training.optim import is_plain_adam


class Regions:
    """The parts that a network names, or all of it, and steps of an optimizer."""

    def __init__(self, network: nn.Module, optimizer: Optimizer | None = None) -> None:
        self._network = network
        self._optimizer = optimizer

    @contextmanager
    def compiled(self) -> Iterator[object]:
        """Run the parts compiled for a while; each is compiled when it runs first.

        Gives what recordings of them go on reading from.
        """
        # Takes long to import, and most runs never need it.
        from torch._inductor import config as inductor

        parts = parts_of(self._network)
        for part in parts:
            part.compile(dynamic=False)
        try:
            # Dropout as ever: compiled kernels would draw other numbers.
            with inductor.patch(fallback_random=True), stepping_by_kernel(self._optimizer) as steps:
                yield steps
        finally:
            for part in parts:
                part._compiled_call_impl = None

    def compile_ahead(self, run: Callable[[nn.Module], object]) -> None:
        """Compile what `run` runs of a network, by a copy, while the network itself is in use."""
        twin = copy.deepcopy(self._network)
        with Regions(twin).compiled():
            run(twin)
        torch.cuda.synchronize()


@contextmanager
def stepping_by_kernel(optimizer: Optimizer | None) -> Iterator[object]:
    """Let an optimizer make its steps by a kernel of our own for a while, if there is one."""
    if optimizer is None or not is_plain_adam(optimizer):
        yield None
        return
    from manyhands.training.adam_kernels import AdamSteps

    steps = AdamSteps(cast(Adam, optimizer))
    vars(optimizer)["step"] = steps
    try:
        yield steps
    finally:
        del vars(optimizer)["step"]


def parts_of(network: nn.Module) -> list[nn.Module]:
    """The outermost modules of the kinds that a network names for it."""
    kinds = getattr(type(network), "compile_units", None)
    if kinds is None:
        return [network]
    return [module for module in network.modules() if isinstance(module, kinds)]
