"""A proof that code asks a device for nothing, made without one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

READING = {"_local_scalar_dense", "equal", "is_nonzero", "item", "masked_select", "nonzero"}
READING |= {"_unique", "_unique2", "unique_consecutive", "unique_dim", "unique_dim_consecutive"}
"""Operations whose result, or its size, is known only when the device has computed it."""


class _NoReading(TorchDispatchMode):
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func._schema.name.partition("::")[2]
        assert name not in READING, f"{name} waits for the device"
        return func(*args, **kwargs or {})


@contextmanager
def no_host_synchronization() -> Iterator[None]:
    """Fail at the first operation that would have to wait for a device."""
    with _NoReading():
        yield
