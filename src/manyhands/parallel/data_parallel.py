"""Data parallelism in one process: each device computes a slice of the batch.

Weights are on the first device. Every forward pass copies them to the others; autograd sums the
gradients of the copies on the first device.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.parallel.accelerate_engine import micro_batch
from manyhands.parallel.nested import to_device
from manyhands.types import Batch, LossTerm, LossTerms

Context = Callable[[], AbstractContextManager[None]]


class DataParallel(nn.Module):
    """A network that computes the terms of its loss on several devices at once."""

    def __init__(
        self, network: nn.Module, devices: Sequence[torch.device], autocast: Context
    ) -> None:
        super().__init__()
        reject_batch_norm(network)
        self.network = network
        self._devices = devices
        self._autocast = autocast
        # Threads cannot use the same module; one without weights costs nothing.
        self.skeletons = nn.ModuleList(deepcopy(network).to("meta") for _ in devices)

    def forward(self, batch: Batch, draws: Mapping[str, Tensor]) -> LossTerms:
        """The loss terms of all slices, summed on the first device."""
        _seed_replicas(self._devices)
        num_samples = next(len(each) for each in batch.values() if isinstance(each, Tensor))
        num_micro_batches = max(1, min(num_samples, len(self._devices)))
        whole = {"batch": batch, "draws": dict(draws)}
        parts = [
            micro_batch(whole, number, num_micro_batches) for number in range(num_micro_batches)
        ]
        run = partial(self._run, is_tracking=torch.is_grad_enabled())
        with ThreadPoolExecutor(num_micro_batches) as threads:
            terms = list(threads.map(run, range(num_micro_batches), parts))
        totals = {
            name: torch.stack([each[name].total.to(self._devices[0]) for each in terms]).sum()
            for name in terms[0]
        }
        return {name: LossTerm(total, terms[0][name].weight) for name, total in totals.items()}

    def _run(self, number: int, part: Batch, is_tracking: bool) -> LossTerms:
        device = self._devices[number]
        # A new thread inherits neither device, nor autocast, nor grad mode.
        with _current(device), torch.set_grad_enabled(is_tracking), self._autocast():
            tensors = dict([*self.network.named_parameters(), *self.network.named_buffers()])
            weights = to_device(tensors, device)
            inputs = to_device((part["batch"], part["draws"]), device)
            terms: LossTerms = functional_call(self.skeletons[number], weights, inputs)
            return terms


def devices_of(first: torch.device, num_devices: int) -> list[torch.device]:
    """Consecutive GPUs; a CPU is repeated."""
    if first.type != "cuda":
        return [first] * num_devices
    start = first.index or 0
    num_gpus = torch.cuda.device_count()
    if start + num_devices > num_gpus:
        raise EnvironmentFault(
            f"--parallelism.gpus_per_process={num_devices} starting at {first}, but the number of "
            f"visible GPUs is {num_gpus}"
        )
    return [torch.device("cuda", start + number) for number in range(num_devices)]


def reject_batch_norm(network: nn.Module) -> None:
    """Reject batch norm, because every device sees only a slice of the batch."""
    counters = [name for name, _ in network.named_buffers() if name.endswith("num_batches_tracked")]
    if counters:
        raise ConfigError(
            "--parallelism.gpus_per_process cannot train batch norm: each GPU would see its "
            "own slice of the batch. Use one process per GPU, which synchronize statistics, or "
            "norms without statistics such as --policy.use_group_norm=true"
        )


def _current(device: torch.device) -> AbstractContextManager[None]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _seed_replicas(devices: Sequence[torch.device]) -> None:
    """Seed every device differently if all still have the same seed."""
    common = torch.initial_seed()
    for number, device in enumerate(devices):
        if device.type != "cuda" or number == 0:
            continue
        generator = torch.cuda.default_generators[device.index]
        if generator.initial_seed() == common:
            generator.manual_seed(common + number)
