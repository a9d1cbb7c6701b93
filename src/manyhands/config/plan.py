"""A plan of a run, as the user asked for it."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.made_up import MadeUpConfig
from manyhands.units import parse_bytes

USUAL_GPUS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class PlanConfig(MadeUpConfig):
    """Plan."""

    gpus: list[int] | None = None
    """Numbers of GPUs to plan for; null: --launch.num_processes, else [1, 2, 4, 8]."""
    gpu_memory: str | None = None
    """Memory of each GPU, as 80GiB; null: that of the GPU in this machine, if any."""
    json: Path | None = None
    """JSON file for the plan."""

    @property
    def gpu_bytes(self) -> int | None:
        """Memory of each GPU, where it is given."""
        return None if self.gpu_memory is None else parse_bytes(self.gpu_memory)

    def faults(self) -> list[str]:
        """Values that nothing can be planned with."""
        faults = super().faults()
        gpus = self.gpus
        if gpus is not None and (not gpus or min(gpus) < 1):
            faults.append(f"--gpus={gpus} must be integers from 1")
        try:
            is_none = self.gpu_bytes == 0
        except ValueError as error:
            return [*faults, f"--gpu_memory={self.gpu_memory}: {error}"]
        return [*faults, "--gpu_memory=0 is too small for any policy"] if is_none else faults
