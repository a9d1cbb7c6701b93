"""How an update is carried out on a GPU."""

from collections.abc import Iterator
from dataclasses import dataclass

STEP_MODES = ("auto", "eager", "graph", "compile")


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """How updates are carried out on a GPU; on a CPU they always are one operation at a time."""

    mode: str = "auto"
    """eager, graph (recorded, replayed whole), compile (graph, fused kernels), or auto."""

    def faults(self) -> Iterator[str]:
        """Yield what is no way to make updates."""
        if self.mode not in STEP_MODES:
            yield f"--step.mode={self.mode} is not one of {', '.join(STEP_MODES)}"
