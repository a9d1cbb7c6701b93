"""No-op process group: every collective returns at once, without communication.

The difference to a normal step is the cost of communication. Tensors from other ranks are replaced
by local ones: values of the usual size, but wrong.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, ProcessGroup, Work
from torch.futures import Future

SILENT = "silent"


class Done(Work):
    """A finished collective."""

    def __init__(self, outputs: list[Tensor]) -> None:
        super().__init__()
        self._future: Future[list[Tensor]] = Future()
        self._future.set_result(outputs)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return at once."""
        return True

    def get_future(self) -> Future[list[Tensor]]:
        """The finished outputs."""
        return self._future


def _kept(_group: ProcessGroup, tensors: list[Tensor], *_options: Any) -> Work:
    return Done(tensors)


def _listed(
    _group: ProcessGroup, outputs: list[list[Tensor]], inputs: list[Tensor], *_options: Any
) -> Work:
    for own, value in zip(outputs, inputs, strict=True):
        for output in own:
            output.copy_(value)
    return Done(outputs[0])


def _gathered(group: ProcessGroup, output: Tensor, value: Tensor, *_options: Any) -> Work:
    for rank, part in enumerate(output.view(group.size(), -1)):
        # The own slice may already be the value itself.
        if rank != group.rank() or part.data_ptr() != value.data_ptr():
            part.copy_(value.reshape(-1))
    return Done([output])


def _scattered(group: ProcessGroup, output: Tensor, value: Tensor, *_options: Any) -> Work:
    output.copy_(value.view(group.size(), *output.shape)[group.rank()])
    return Done([output])


def _reached(_group: ProcessGroup, **_options: Any) -> Work:
    return Done([])


COLLECTIVES: dict[str, Callable[..., Work]] = {
    "allreduce": _kept,
    "broadcast": _kept,
    "allgather": _listed,
    "_allgather_base": _gathered,
    "_reduce_scatter_base": _scattered,
    "barrier": _reached,
    # Their names in torch 2.13.
    "all_gather_single": _gathered,
    "reduce_scatter_single": _scattered,
}


@contextmanager
def no_op_group(num_ranks: int) -> Iterator[None]:
    """Compute as one of several ranks, of which no other exists."""
    if num_ranks == 1:
        yield
        return
    dist.init_process_group(no_op_backend(), store=HashStore(), rank=0, world_size=num_ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def no_op_backend() -> str:
    """The name of the no-op backend."""
    if not hasattr(dist.Backend, SILENT.upper()):
        dist.Backend.register_backend(
            SILENT, _silent_group, extended_api=True, devices=["cpu", "cuda"]
        )
    return SILENT


def _silent_group(options: Any, _backend_options: Any) -> ProcessGroup:
    name = options.group_id
    # Torch asks Python groups for a name, but does not store one.
    own = {"group_name": property(lambda _: name), "getBackendName": lambda _: SILENT}
    kind: Callable[[int, int], ProcessGroup] = type(
        "SilentGroup", (ProcessGroup,), COLLECTIVES | own
    )
    return kind(options.group_rank, options.group_size)
