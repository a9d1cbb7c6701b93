"""How a training step runs on a GPU."""

from collections.abc import Iterator
from dataclasses import dataclass

STEP_MODES = ("auto", "eager", "graph", "compile")


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """How steps run on a GPU; on a CPU they always run eagerly."""

    mode: str = "auto"
    """eager, graph (CUDA graph), compile (CUDA graph of compiled modules), or auto: graph, then
    compile once a trial in a separate process has shown that it is correct and faster."""
    compile_min_left_s: float = 300.0
    """With auto: compile only if at least this much training time is left, in seconds."""

    def faults(self) -> Iterator[str]:
        """Yield values that cannot work."""
        if self.mode not in STEP_MODES:
            yield f"--step.mode={self.mode} is not one of {', '.join(STEP_MODES)}"
        if self.compile_min_left_s < 0:
            yield f"--step.compile_min_left_s={self.compile_min_left_s} must be at least 0"
