"""Ways to run a training step: eagerly, or captured as a CUDA graph and replayed.

A captured step is compared with an eager one before it is used. If that fails, a run continues
eagerly and logs why. Ranks vote wherever one could otherwise wait for another that failed: each
rank first does its local work without communication, then all vote, then all communicate.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import torch
import torch.distributed as dist

from manyhands.parallel.collectives import without_communication
from manyhands.parallel.cuda import on_side_stream
from manyhands.training.step.comparison import Comparison
from manyhands.training.step.compiled_modules import CompiledModules
from manyhands.training.step.cuda_graph import CudaGraph, input_signature
from manyhands.training.step.state_backup import StateBackup
from manyhands.training.step.train_step import StepFunction, StepInputs, StepMetrics, TrainStep

MAX_GRAPHS = 4
"""Shapes of batches that are captured; others run eagerly."""
NUM_WARM_UP = 3
"""Steps before a capture, in which libraries choose their kernels."""
NUM_WARM_UP_DDP = 11
"""The same where DDP reduces gradients, which takes longer to settle."""

Log = Callable[[str], None]


class StepExecutor(Protocol):
    """A way to run training steps."""

    @property
    def mode(self) -> str:
        """The current step mode."""

    def __call__(self, inputs: StepInputs, num_left: int) -> StepMetrics:
        """Collective. Run a step; `num_left` steps follow."""

    def release(self) -> None:
        """Release references to weights and optimizer state, and free what depends on them."""

    def close(self) -> None:
        """Stop background work."""


class EagerStep:
    """A step whose kernels the host launches one by one."""

    mode = "eager"

    def __init__(self, step: StepFunction) -> None:
        self._step = step

    def __call__(self, inputs: StepInputs, num_left: int) -> StepMetrics:
        """Run a step."""
        return self._step(inputs)

    def release(self) -> None:
        """Do nothing: an eager step has no references."""

    def close(self) -> None:
        """Do nothing: there is no background work."""


class CaptureFailed(Exception):
    """A step cannot be captured, on this rank or on another."""


class CapturedStep:
    """Steps run by CUDA graphs, optionally of compiled modules."""

    def __init__(
        self,
        step: TrainStep,
        log: Log,
        modules: CompiledModules | None = None,
        otherwise: str = "running eagerly",
    ) -> None:
        self._aim = "graph" if modules is None else "compile"
        self.step = step
        self._otherwise = otherwise
        self._log = log
        self._modules = modules
        self._graphs: dict[tuple[object, ...], CudaGraph | None] = {}

    def __call__(self, inputs: StepInputs, num_left: int) -> StepMetrics:
        """Collective. Run a step by its graph, which is captured on first use."""
        self.capture(inputs)
        graph = self._graphs[input_signature(inputs)]
        return self.step(inputs) if graph is None else graph(inputs)

    @property
    def mode(self) -> str:
        """The requested step mode, or eager if capture failed."""
        return self._aim if self.works else EagerStep.mode

    @property
    def works(self) -> bool:
        """Whether every capture so far succeeded."""
        return None not in self._graphs.values()

    def release(self) -> None:
        """Free the graphs; the next step captures again."""
        self._graphs.clear()
        if self.step.world.device.type == "cuda":
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Do nothing: there is no background work."""

    def capture(self, inputs: StepInputs) -> bool:
        """Collective. Capture a step for such inputs unless done; return whether it succeeded.

        Weights, optimizer and random generators are unchanged.
        """
        signature = input_signature(inputs)
        if signature not in self._graphs:
            self._graphs[signature] = self._captured(inputs)
        return self._graphs[signature] is not None

    def _captured(self, inputs: StepInputs) -> CudaGraph | None:
        """Collective. Return a graph on every rank, or on none."""
        if len(self._graphs) >= MAX_GRAPHS:
            return None
        seed, before = torch.initial_seed(), StateBackup(self.step.state_tensors)
        graph = None
        try:
            graph = self._compared(inputs, seed, before)
        except CaptureFailed as failure:
            self.step.policy.network.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            what = "Compiled step" if self._modules else "CUDA graph"
            self._log(f"{what} disabled, {self._otherwise}: {failure}")
        before.restore()
        torch.manual_seed(seed)
        return graph

    def _compared(self, inputs: StepInputs, seed: int, before: StateBackup) -> CudaGraph:
        """Collective. Return a graph that matches an eager step."""
        compute = self.step
        self._warm_up(inputs)
        torch.manual_seed(seed)
        with self._shared():
            comparison = Comparison(compute, inputs, before, self._aim)
        before.restore()
        with self._kernels() as read:
            self._warm_up(inputs)
            torch.manual_seed(seed)
            with self._alone():
                graph = CudaGraph(compute, inputs, read)
        before.restore()
        torch.manual_seed(seed)
        with self._shared():
            found = graph(inputs)
        with self._alone():
            fault = comparison.fault(found)
            if fault is not None:
                raise CaptureFailed(fault)
        return graph

    def _kernels(self) -> AbstractContextManager[object]:
        return nullcontext() if self._modules is None else self._modules.compiled()

    def _warm_up(self, inputs: StepInputs) -> None:
        """Collective. Let libraries select kernels and the compiler generate them."""
        compute, world = self.step, self.step.world
        if world.size > 1:
            # Compiling may fail, or memory run out, while no other rank waits.
            with self._alone(), on_side_stream(world.device), without_communication():
                compute(inputs)
        with self._shared(), on_side_stream(world.device):
            for _ in range(NUM_WARM_UP_DDP if dist.is_initialized() else NUM_WARM_UP):
                compute(inputs)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Collective at its end. Run local work; a failure on one rank is a failure on all."""
        fault = None
        try:
            yield
        except (RuntimeError, CaptureFailed) as error:
            fault = (str(error).strip() or type(error).__name__).splitlines()[0]
        if self.step.world.any(fault is not None):
            raise CaptureFailed(fault or "it failed on another rank")

    @contextmanager
    def _shared(self) -> Iterator[None]:
        """Communicate; other ranks wait for this one, so a failure here ends the run."""
        if self.step.world.size == 1:
            with self._alone():
                yield
        else:
            yield
