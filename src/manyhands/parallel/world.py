"""The ranks of a run: their devices and how they communicate.

Every method of World that communicates is collective: all ranks must call it, in the same order.
Host objects (stop requests, names, tables) use gloo, so that they never wait for a GPU.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from manyhands.config.launch.launcher import Launcher, read_launcher
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault, Stopped, UserError
from manyhands.parallel.collectives import all_reduce_sum, check_thread, num_ranks
from manyhands.parallel.placement import find_placement, reject_shared_gpus
from manyhands.parallel.precision import AUTOCAST, check_precision, resolve_precision
from manyhands.parallel.rendezvous import Rendezvous, joined_rendezvous
from manyhands.parallel.strategy import Strategy, resolve_strategy
from manyhands.stop import Answer, StopSignal

T = TypeVar("T")

KINDS = {"cpu": "MULTI_CPU", "cuda": "MULTI_GPU", "mps": "MPS"}
"""Accelerate's names of distributed environments; that of a single process is NO."""


class World:
    """All ranks of a run, seen from one of them."""

    def __init__(
        self,
        launcher: Launcher,
        device: torch.device,
        precision: str,
        strategy: Strategy,
        rendezvous: Rendezvous,
    ) -> None:
        self.strategy = strategy
        self.rank = launcher.rank
        self.size = launcher.num_ranks if launcher.started_ranks else 1
        self.num_local_ranks = launcher.num_local_ranks
        self.local_rank = launcher.local_rank
        self.device = device
        self.precision = precision
        self.loss_scaler = torch.amp.GradScaler(device.type) if precision == "fp16" else None
        self.kind = KINDS[device.type] if launcher.started_ranks else "NO"
        self.on_teardown = rendezvous.on_teardown
        self.watch = rendezvous.watch
        self._stop = rendezvous.stop
        self.timeout = rendezvous.timeout
        self._host_group = rendezvous.host_group
        self._num_onces = 0
        self.placements = self.gather(find_placement(self.rank, self.device))
        reject_shared_gpus(self.placements)

    @property
    def is_main(self) -> bool:
        """Whether this rank logs and writes for all."""
        return self.rank == 0

    @property
    def num_gpus(self) -> int:
        """GPUs that this run uses."""
        on_gpus = sum(placement.device.startswith("cuda") for placement in self.placements)
        return on_gpus * self.strategy.num_devices

    def defer_stops(self, answer: Answer | None = None) -> None:
        """Collective. Only record stop requests from now on; an earlier one raises Stopped.

        The main rank answers them.
        """
        self._stop.defer(answer if self.is_main else None)
        if self.is_stopping():
            raise Stopped

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether this rank was asked to stop."""
        return self._stop.requested

    def is_stopping(self) -> bool:
        """Collective. Whether any rank was asked to stop."""
        return self.any(self.is_asked_to_stop)

    def any(self, flag: bool) -> bool:
        """Collective. Whether the flag is set on any rank."""
        return any(self.gather(flag))

    def gather(self, value: T) -> list[T]:
        """Collective. All-gather: the values of all ranks, by rank."""
        check_thread()
        if self._host_group is None:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self._host_group)
        return values

    def broadcast(self, value: T) -> T:
        """Collective. Broadcast the value of the main rank."""
        check_thread()
        if self._host_group is None:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._host_group)
        return values[0]

    def on_main(self, work: Callable[[], T]) -> T:
        """Collective. Run work on the main rank and broadcast its result; a usage error stops all.

        It may take any time: the others do not wait in a collective, which could time out.
        """
        self._num_onces += 1
        done = f"once/{self._num_onces}"
        found: tuple[T | None, UserError | None] = (None, None)
        with self.watch.without_timeout("work of the main rank"):
            if self.is_main:
                found = _outcome(work)
                self.watch.publish(done)
            else:
                self.watch.wait_for(done)
        result, fault = self.broadcast(found)
        if fault is not None:
            fault.is_common = True
            raise fault
        return cast(T, result)

    def on_every_rank(self, work: Callable[[], None]) -> None:
        """Collective. Run work on every rank; a usage error on one stops all.

        It may take any time, as in `on_main`.
        """
        self._num_onces += 1
        done = [f"each/{self._num_onces}/{rank}" for rank in range(self.size)]
        with self.watch.without_timeout("work of every rank"):
            _, fault = _outcome(work)
            self.watch.publish(done[self.rank])
            for key in done:
                self.watch.wait_for(key)
        faults = [each for each in self.gather(fault) if each is not None]
        if faults:
            raise faults[0]

    def on_each_machine(self, work: Callable[[], None]) -> None:
        """Run work on the first rank of every machine; the others do not wait."""
        if self.local_rank == 0:
            work()

    def barrier(self) -> None:
        """Collective. Wait until every rank is here."""
        self.gather(None)

    def sum(self, values: Tensor) -> Tensor:
        """Collective. The element-wise sum over ranks, on the device."""
        check_thread()
        return all_reduce_sum(values) if num_ranks() > 1 else values

    def autocast(self) -> AbstractContextManager[None]:
        """Compute in the mixed precision of the run."""
        dtype = AUTOCAST[self.precision]
        return torch.autocast(self.device.type, dtype) if dtype else nullcontext()

    def free_memory(self) -> None:
        """Free the memory of prepared networks that are no longer in use."""
        # Accelerate makes a network refer to itself.
        gc.collect()
        torch.cuda.empty_cache()


@contextmanager
def joined_world(
    config: TrainConfig,
    backend: str | None = None,
    stop: StopSignal | None = None,
    device_name: str | None = None,
    launcher: Launcher | None = None,
) -> Iterator[World]:
    """Join the ranks the launcher started; leave their group in any case.

    Tensors use `backend`, or the default of the device. A stop request on one rank stops all.
    `device_name` is for a run without a policy, which has none of its own; `launcher` for work of
    one rank alone.
    """
    launcher = launcher or read_launcher(os.environ)
    device = _device_of(config.policy.device if config.policy else device_name, launcher)
    precision = resolve_precision(config, launcher, device)
    strategy = resolve_strategy(config, launcher)
    _refuse_missing_gpus(device, launcher, "--policy.device" if config.policy else "--device")
    check_precision(precision, config, device)
    device = indexed(device, launcher)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if launcher.binds_cores:
        # Imports Accelerate, which sharded runs do not need otherwise.
        from accelerate.utils import set_numa_affinity

        set_numa_affinity(launcher.local_rank)
    backend = backend or ("nccl" if device.type == "cuda" else "gloo")
    with joined_rendezvous(launcher, backend, config.timeout_s, stop or StopSignal()) as rendezvous:
        yield World(launcher, device, precision, strategy, rendezvous)


def _outcome(work: Callable[[], T]) -> tuple[T | None, UserError | None]:
    try:
        return work(), None
    except UserError as error:
        return None, error


def resolve_accumulation(config: TrainConfig) -> int:
    """Micro-batches per step, from the flag or else from the launcher."""
    steps = config.accelerator.gradient_accumulation.steps
    return steps if steps > 1 else read_launcher(os.environ).accumulation or 1


def indexed(device: torch.device, launcher: Launcher) -> torch.device:
    """The device of this rank with its index, if it is a GPU or the CPU of several ranks."""
    if launcher.started_ranks:
        return torch.device(device.type, launcher.local_rank if device.type == "cuda" else 0)
    if device.type != "cuda" or device.index is not None:
        return device
    # The current device, which differs between threads and processes.
    return torch.device("cuda", torch.cuda.current_device())


def num_visible_gpus() -> int:
    """The number of visible GPUs."""
    return torch.cuda.device_count()


def _device_of(device: str | None, launcher: Launcher) -> torch.device:
    if launcher.use_cpu or device == "cpu" or (device is None and not torch.cuda.is_available()):
        return torch.device("cpu")
    return torch.device(device or "cuda")


def _refuse_missing_gpus(device: torch.device, launcher: Launcher, flag: str) -> None:
    if device.type == "mps":
        _refuse_missing_mps(launcher, flag)
    if device.type != "cuda":
        return
    num_gpus = num_visible_gpus()
    if num_gpus == 0:
        raise EnvironmentFault(f"{flag}={device}: no GPU is visible. Use {flag}=cpu")
    if device.index is not None and launcher.num_ranks > 1:
        raise EnvironmentFault(
            f"{flag}={device} would put {launcher.num_ranks} processes on one GPU. Use "
            f"{flag}=cuda, and CUDA_VISIBLE_DEVICES to choose GPUs"
        )
    if (device.index or 0) >= num_gpus or launcher.local_rank >= num_gpus:
        raise EnvironmentFault(
            f"{launcher.num_local_ranks} processes on {flag}={device}, but the number of "
            f"visible GPUs is {num_gpus}. Start one process per GPU"
        )


def _refuse_missing_mps(launcher: Launcher, flag: str) -> None:
    if not torch.backends.mps.is_available():
        raise EnvironmentFault(
            f"{flag}=mps: PyTorch finds no Apple GPU on this machine. Use {flag}=cpu"
        )
    if launcher.num_ranks > 1:
        raise EnvironmentFault(
            f"{flag}=mps trains in one process, not {launcher.num_ranks}. Use {flag}=cpu"
        )
