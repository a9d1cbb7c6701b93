"""The process that tests a compiled step for a run: `python -m`, with a request on stdin.

It builds the same learner with fresh weights, captures the step as a plain CUDA graph and as one of
compiled modules, compares each with eager steps, times both, and writes a verdict. Meanwhile
further processes compile one class of modules each. All use one kernel cache with the run.
"""

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from statistics import median
from typing import TYPE_CHECKING

from manyhands.launch.background import lower_priority

if TYPE_CHECKING:
    import torch
    from torch import nn

    from manyhands.policies.policy import Policy
    from manyhands.training.step.executors import CapturedStep, StepExecutor
    from manyhands.training.step.learner import Learner
    from manyhands.training.step.trial import TrialRequest
    from manyhands.training.step.verdict import Verdict

MAX_COMPILE_S = 300.0
"""How long further processes may compile."""
NUM_COMPARED = 5
"""Steps whose losses are compared with those of eager steps."""
MAX_LOSS_DIFFERENCE = 0.1
"""The largest relative difference of those losses: rounding moves the weights apart by then."""
NUM_BLOCKS = 5
"""Blocks of steps that are timed; their median counts."""
BLOCK_S = 0.4
STEADY = 0.2
"""Relative difference of two timings of one step, beyond which other programs disturb them."""
FRAGMENTATION = 1.15
"""How much more memory an allocator takes than tensors need."""


def main() -> None:
    """Read a request, test the compiled step, store the verdict."""
    lower_priority()
    request: TrialRequest = pickle.load(sys.stdin.buffer)
    if request.only is not None:
        compile_class(request, request.only)
    else:
        request.verdicts.write(request.key, try_compiled(request))


def try_compiled(request: "TrialRequest") -> "Verdict":
    """Compare the compiled step with an eager one, and time it against a plain CUDA graph."""
    from manyhands.training.step.compiled_modules import CompiledModules
    from manyhands.training.step.executors import CapturedStep, EagerStep
    from manyhands.training.step.trial import OUT_OF_MEMORY
    from manyhands.training.step.verdict import Verdict

    began, faults = time.monotonic(), list[str]()
    with build_learner(request) as learner:
        step = learner.step
        report("built the learner")
        modules = CompiledModules(step.policy.network, step.optimizer, step.ema)
        graph = CapturedStep(step, faults.append)
        compiled = CapturedStep(step, faults.append, modules)
        rehearsal = TrialSteps(learner, request)
        with compiling_in_parallel(request, step.policy.network):
            expected = rehearsal.losses(EagerStep(step))
            first_ms, _ = rehearsal.measured(graph, expected)
            report(f"captured a CUDA graph: {first_ms:.2f} ms per step")
        report("compiled all modules")
        compiled_ms, num_bytes = rehearsal.measured(compiled, expected)
        report(f"captured the compiled step: {compiled_ms:.2f} ms per step")
        # Again, because the GPU load of other programs may have changed.
        graph_ms, _ = rehearsal.measured(graph, expected)
        report(f"captured a CUDA graph again: {graph_ms:.2f} ms per step")
        faults += rehearsal.faults
    is_steady = bool(faults) or abs(first_ms - graph_ms) <= STEADY * graph_ms
    reason = [*faults, f"{compiled_ms:.1f} ms instead of {graph_ms:.1f} ms per step"][0]
    return Verdict(
        is_faster=not faults and compiled_ms < graph_ms,
        is_final=OUT_OF_MEMORY not in reason and is_steady,
        reason=reason,
        graph_ms=graph_ms,
        compiled_ms=compiled_ms,
        trial_s=time.monotonic() - began,
        num_bytes=num_bytes,
    )


@contextmanager
def compiling_in_parallel(request: "TrialRequest", network: "nn.Module") -> Iterator[None]:
    """Compile each class of modules in a separate process, if memory allows it."""
    import torch

    from manyhands.training.step.compiled_modules import classes_of

    number = len(classes_of(network))
    if number < 2 or torch.cuda.mem_get_info()[0] < number * request.max_bytes:
        yield
        return
    with ThreadPoolExecutor(number) as threads:
        for only in range(number):
            threads.submit(compile_elsewhere, replace(request, only=only), number)
        yield


def compile_elsewhere(request: "TrialRequest", num_processes: int) -> None:
    """Compile in another process; if it fails or hangs, this process compiles instead."""
    from manyhands.training.step.trial import start_trial

    log = request.verdicts.log_path(f"{request.key}.{request.only}")
    process = start_trial(log, 0, num_processes)
    try:
        process.communicate(pickle.dumps(request), timeout=MAX_COMPILE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def compile_class(request: "TrialRequest", only: int) -> None:
    """Compile one class of modules, and store its kernels in the cache."""
    from manyhands.training.step.compiled_modules import CompiledModules, classes_of

    with build_learner(request) as learner:
        network = learner.policy.network
        inputs = request.inputs.mapped(lambda each: each.to(learner.policy.device))
        learner.begin_step(0)
        with CompiledModules(network, only=classes_of(network)[only]).compiled():
            learner.step(inputs)


def report(event: str) -> None:
    """Log an event, and the elapsed time of this process."""
    print(
        f"{time.process_time():7.1f} s of CPU time, {time.strftime('%H:%M:%S')}: {event}",
        flush=True,
    )


class TrialSteps:
    """The same few steps, run by several executors from the same state."""

    def __init__(self, learner: "Learner", request: "TrialRequest") -> None:
        from manyhands.training.step.state_backup import StateBackup

        device = learner.policy.device
        self.faults: list[str] = []
        self._learner = learner
        self._first = learner.config.num_steps // 2
        self._inputs = request.inputs.mapped(lambda each: each.to(device))
        self._before = StateBackup(learner.step.state_tensors)

    def measured(self, step: "CapturedStep", expected: "torch.Tensor") -> tuple[float, int]:
        """Measure the milliseconds of a step, and its bytes besides weights and optimizer."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        self._before.restore()
        self._learner.begin_step(self._first)
        if not step.capture(self._inputs):
            return inf, 0
        differences = ((self.losses(step) - expected) / expected).abs()
        if not differences.max().item() <= MAX_LOSS_DIFFERENCE:
            self.faults.append(
                f"the losses of {NUM_COMPARED} steps differ by {differences.max().item():.2g} of "
                f"their size from those of eager steps, more than {MAX_LOSS_DIFFERENCE}"
            )
        once_ms = self._milliseconds(step, 3)
        blocks = [
            self._milliseconds(step, round(1e3 * BLOCK_S / once_ms) + 1) for _ in range(NUM_BLOCKS)
        ]
        num_bytes = round(FRAGMENTATION * (torch.cuda.max_memory_allocated() - held))
        step.release()
        return median(blocks), num_bytes

    def losses(self, step: "StepExecutor") -> "torch.Tensor":
        """The losses of a few steps."""
        import torch

        self._before.restore()
        return torch.stack([self._run(step, number) for number in range(NUM_COMPARED)])

    def _run(self, step: "StepExecutor", number: int) -> "torch.Tensor":
        self._learner.begin_step(self._first + number)
        return step(self._inputs, 0).terms["loss"]

    def _milliseconds(self, step: "StepExecutor", num_steps: int) -> float:
        import torch

        torch.cuda.synchronize()
        began = time.monotonic()
        for number in range(num_steps):
            self._run(step, number)
        torch.cuda.synchronize()
        return 1e3 * (time.monotonic() - began) / num_steps


@contextmanager
def build_learner(request: "TrialRequest") -> Iterator["Learner"]:
    """Build the learner of a run with fresh weights, in a single process."""
    import torch

    from manyhands.parallel.no_op_group import no_op_group
    from manyhands.parallel.world import joined_world
    from manyhands.training.setup.assemble import make_learner
    from manyhands.training.step.kernel_choice import kernel_settings

    config, share = request.config, request.split
    with kernel_settings(False), no_op_group(share.num_ranks), joined_world(config) as world:
        total = torch.cuda.get_device_properties(world.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, request.max_bytes / total))
        yield make_learner(build_policy(request, world.device), config, world, share)


def build_policy(request: "TrialRequest", device: "torch.device") -> "Policy":
    """Build the policy of a run with fresh weights."""
    from manyhands.policies.adapters import adapt
    from manyhands.policies.build import assemble_policy
    from manyhands.training.setup.assemble import DTYPES

    policy = assemble_policy(replace(request.policy, device=device.type), request.processors)
    if request.adapters is not None:
        adapt(policy, request.adapters)
    return policy.to(device, DTYPES[request.config.dtype])


if __name__ == "__main__":
    main()
