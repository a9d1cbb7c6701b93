"""Compiles the modules of a network with torch.compile; the optimizer and EMA get a kernel."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Adam, Optimizer

from manyhands.parallel.collectives import num_ranks
from manyhands.policies.vision.norms import BatchNorm
from manyhands.training.step.ema import Ema, NoEma
from manyhands.training.step.optimizer import is_plain_adam

INDUCTOR: dict[str, Any] = {
    # Dropout draws the same numbers as eager kernels.
    "fallback_random": True,
    # Inductor may give a buffer padded strides after kernels were generated for the strides of a
    # buffer whose memory it reuses: they read beyond its end (seen with torch 2.11 where a custom
    # operator in channels-last layout precedes group norm).
    "comprehensive_padding": False,
}
"""Settings of torch's compiler that a run relies on."""


class CompiledModules:
    """The modules in a network's `compile_units`, or one class of them."""

    def __init__(
        self,
        network: nn.Module,
        optimizer: Optimizer | None = None,
        ema: Ema | NoEma | None = None,
        only: type[nn.Module] | None = None,
    ) -> None:
        self._network = network
        self._optimizer = optimizer
        self._ema = ema or NoEma()
        self._modules = [
            module for module in modules_of(network) if only is None or type(module) is only
        ]

    @contextmanager
    def compiled(self) -> Iterator[object]:
        """Run the modules compiled inside the block; each is compiled when it first runs.

        Yields the objects that a CUDA graph of them must keep alive.
        """
        # Importing it is slow, and most runs do not need it.
        from torch._inductor import config as inductor

        for module in self._modules:
            module.compile(dynamic=False)
        try:
            with (
                inductor.patch(INDUCTOR),
                communicating_eagerly(self._network),
                with_adam_kernel(self._optimizer, self._ema) as read,
            ):
                yield read
        finally:
            for module in self._modules:
                module._compiled_call_impl = None


@contextmanager
def communicating_eagerly(network: nn.Module) -> Iterator[None]:
    """Keep batch norms over several ranks out of compiled kernels, which cannot communicate."""
    disable: Any = torch.compiler.disable
    norms = [each for each in network.modules() if isinstance(each, BatchNorm) and num_ranks() > 1]
    for norm in norms:
        vars(norm)["forward"] = disable(norm.forward)
    try:
        yield
    finally:
        for norm in norms:
            del vars(norm)["forward"]


@contextmanager
def with_adam_kernel(optimizer: Optimizer | None, ema: Ema | NoEma) -> Iterator[object]:
    """Use our own kernel for optimizer and EMA inside the block, if the optimizer is supported."""
    if optimizer is None or not is_plain_adam(optimizer):
        yield None
        return
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    steps = FusedAdamSteps(cast(Adam, optimizer), ema)
    vars(optimizer)["step"] = steps
    # The kernel has updated the average already.
    vars(ema)["follow"] = NoEma().follow
    try:
        yield steps
    finally:
        del vars(optimizer)["step"], vars(ema)["follow"]


def classes_of(network: nn.Module) -> list[type[nn.Module]]:
    """The classes of the compiled modules, each once."""
    return list(dict.fromkeys(type(module) for module in modules_of(network)))


def modules_of(network: nn.Module) -> list[nn.Module]:
    """The outermost modules of the classes in `compile_units`."""
    classes = getattr(type(network), "compile_units", None)
    if classes is None:
        return [network]
    return [module for module in network.modules() if isinstance(module, classes)]
