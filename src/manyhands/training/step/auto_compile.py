"""Runs steps as a CUDA graph, and switches to compiled kernels once a trial has approved them.

When a run switches depends on the machine, so a bitwise reproducible run never does. All ranks
take every decision together: they check at the same steps, about once a second.
"""

import time
from collections.abc import Callable

import torch

from manyhands import units
from manyhands.config.train import TrainConfig
from manyhands.parallel.strategy import StrategyKind
from manyhands.parallel.world import World
from manyhands.training.step.compiled_modules import CompiledModules
from manyhands.training.step.executors import CapturedStep, EagerStep, Log, StepExecutor
from manyhands.training.step.optimizer import is_capturable
from manyhands.training.step.state_backup import free_bytes
from manyhands.training.step.train_step import StepInputs, StepMetrics, TrainStep
from manyhands.training.step.trial import Trial
from manyhands.training.step.verdict import Verdict

CHECK_S = 1.0
"""Seconds between two checks."""
MAX_STEPS = 1000
"""Steps between two checks, at most."""
NUM_SETTLING = 20
"""Steps before the first check, in which a graph is captured."""

Stage = Callable[[StepInputs, int, float], "Stage | None"]
"""What to check next, given inputs, the number of steps left and the seconds that each takes."""


class AutoCompile:
    """A CUDA graph, then optionally one of compiled modules; all ranks switch together."""

    def __init__(
        self,
        graph: CapturedStep,
        compiled: CapturedStep,
        trial: Trial,
        min_left_s: float,
        log: Log,
    ) -> None:
        self._graph = graph
        self._compiled = compiled
        self._trial = trial
        self._min_left_s = min_left_s
        self._log = log
        self._current = graph
        self._num_steps = 0
        self._next_check = NUM_SETTLING
        self._since = (0, 0.0)
        self._graph_s = 0.0
        self._stage: Stage | None = self._settle

    @property
    def mode(self) -> str:
        """The current or next step mode."""
        return "auto" if self._num_steps == 0 else self._current.mode

    def __call__(self, inputs: StepInputs, num_left: int) -> StepMetrics:
        """Collective. Run a step."""
        if self._num_steps == 0:
            self._start_compiled(inputs)
        measures = self._current(inputs, num_left)
        self._num_steps += 1
        if self._stage is not None and self._num_steps >= self._next_check:
            step_s = self._seconds_per_step()
            self._stage = self._stage(inputs, num_left, step_s)
            self._next_check = self._num_steps + min(MAX_STEPS, max(1, round(CHECK_S / step_s)))
        return measures

    def release(self) -> None:
        """Release references to weights and optimizer state; the next step captures again."""
        self._graph.release()
        self._compiled.release()

    def close(self) -> None:
        """Stop a running trial."""
        self._trial.close()

    @property
    def _world(self) -> World:
        return self._graph.step.world

    def _seconds_per_step(self) -> float:
        """Collective. Seconds per step since the last call, on the slowest rank."""
        if self._world.device.type == "cuda":
            # The host runs ahead of the GPU, after a switch by many steps.
            torch.cuda.synchronize(self._world.device)
        (steps, then), now = self._since, time.monotonic()
        self._since = (self._num_steps, now)
        return max(self._world.gather((now - then) / (self._num_steps - steps)))

    def _start_compiled(self, inputs: StepInputs) -> None:
        """Collective. Start with the compiled step if an earlier run has approved it."""
        verdicts = self._verdicts(inputs)
        if not all(verdict is not None and verdict.is_usable for verdict in verdicts):
            return
        self._stage = None
        if self._switch(inputs, verdicts):
            self._log("Step mode: CUDA graph of compiled modules, cached by an earlier run")

    def _settle(self, inputs: StepInputs, num_left: int, step_s: float) -> Stage | None:
        """Skip the first steps, whose time includes the capture."""
        return self._begin

    def _begin(self, inputs: StepInputs, num_left: int, step_s: float) -> Stage | None:
        if not self._graph.works or num_left * step_s < self._min_left_s:
            return None
        if all(verdict is not None for verdict in self._verdicts(inputs)):
            return self._decide
        fault = self._trial.start(inputs) if self._makes_trial else None
        faults = [each for each in self._world.gather(fault) if each is not None]
        if faults:
            self._log(f"Compiled step not tried: {faults[0]}")
            return None
        self._log("Trying the compiled step in the background")
        return self._await

    @property
    def _makes_trial(self) -> bool:
        """Whether this rank is the first on its machine with its GPU model."""
        placements = self._world.placements
        own = placements[self._world.rank]
        alike = [
            placement.rank
            for placement in placements
            if (placement.host, placement.name) == (own.host, own.name)
        ]
        return self._world.rank == min(alike)

    def _await(self, inputs: StepInputs, num_left: int, step_s: float) -> Stage | None:
        if self._world.any(self._trial.is_running):
            return self._await
        self._graph_s = step_s
        return self._decide

    def _decide(self, inputs: StepInputs, num_left: int, step_s: float) -> Stage | None:
        verdicts = self._verdicts(inputs)
        known = [each for each in verdicts if each is not None]
        unusable = [each.reason for each in known if not each.is_usable]
        if unusable or len(known) < len(verdicts):
            reason = unusable[0] if unusable else "its trial left no verdict"
            self._log(f"Compiled step not used: {reason}")
            return None
        self._graph_s = step_s
        self._switch(inputs, verdicts)
        return self._settle_compiled

    def _verdicts(self, inputs: StepInputs) -> list[Verdict | None]:
        """Collective. The verdicts of all ranks' machines."""
        return self._world.gather(self._trial.verdict(inputs))

    def _switch(self, inputs: StepInputs, verdicts: list[Verdict | None]) -> bool:
        """Collective. Replace the graph by the compiled step; return whether that succeeded."""
        verdict = verdicts[self._world.rank]
        assert verdict is not None
        # Before the next graph is captured: both may not fit into memory.
        self._graph.release()
        shortage = self._shortage(verdict)
        if self._world.any(shortage is not None):
            self._log(f"Compiled step not used: {shortage or 'another rank lacks the memory'}")
            self._stage = None
            return False
        if self._makes_trial:
            self._trial.begin_switch(verdict)
        works = self._compiled.capture(inputs)
        if self._makes_trial:
            self._trial.end_switch(verdict)
        if works:
            self._current = self._compiled
        else:
            self._compiled.release()
        return works

    def _shortage(self, verdict: Verdict) -> str | None:
        free = free_bytes(self._world.device)
        if free >= verdict.num_bytes:
            return None
        needed, available = (units.num_bytes(each) for each in (verdict.num_bytes, free))
        return f"it needs {needed} of GPU memory, and {available} are free"

    def _settle_compiled(self, inputs: StepInputs, num_left: int, step_s: float) -> Stage | None:
        """Skip the first steps after a switch, which include the capture."""
        return self._confirm if self._current is self._compiled else None

    def _confirm(self, inputs: StepInputs, num_left: int, step_s: float) -> Stage | None:
        """Collective. Return to the graph if compiled steps are slower here than in their trial."""
        comparison = f"{step_s * 1e3:.1f} ms instead of {self._graph_s * 1e3:.1f} ms per step"
        if step_s < self._graph_s:
            self._log(f"Switched to the compiled step: {comparison}")
            return None
        self._compiled.release()
        self._current = self._graph
        self._log(f"Compiled step not used: it takes {comparison}")
        return None


def build_executor(config: TrainConfig, step: TrainStep, log: Log) -> StepExecutor:
    """Build the step executor of a config, as far as possible."""
    mode, world = config.step.mode, step.world
    if mode == "eager" or world.device.type != "cuda":
        return EagerStep(step)
    if world.strategy.kind not in (StrategyKind.SINGLE, StrategyKind.DDP) or not is_capturable(
        step.optimizer
    ):
        log(
            f"Running eagerly: --step.mode={mode} needs a full copy of the weights on one GPU per "
            "process, and a fused optimizer"
        )
        return EagerStep(step)
    graph = CapturedStep(step, log)
    if mode == "graph" or (mode == "auto" and config.cudnn_deterministic):
        return graph
    modules = CompiledModules(step.policy.network, step.optimizer, step.ema)
    if mode == "compile":
        return CapturedStep(step, log, modules)
    compiled = CapturedStep(step, log, modules, otherwise="running as a CUDA graph")
    return AutoCompile(graph, compiled, Trial(config, step), config.step.compile_min_left_s, log)
