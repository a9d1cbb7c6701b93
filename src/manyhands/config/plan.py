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
    """Numbers of GPUs to plan for; null takes --launch.num_processes, else [1, 2, 4, 8]."""
    gpu_memory: str | None = None
    """Memory of each GPU, as 80GiB; null takes that of the GPU here, if there is one."""
    json: Path | None = None
    """File to write the plan to."""

    @property
    def gpu_bytes(self) -> int | None:
        """Memory of each GPU, where it is given."""
        return None if self.gpu_memory is None else parse_bytes(self.gpu_memory)

    def faults(self) -> list[str]:
        """Values that nothing can be planned with."""
        faults = super().faults()
        gpus = self.gpus
        if gpus is not None and (not gpus or min(gpus) < 1):
            faults.append(f"--gpus={gpus} must be numbers from 1 on")
        try:
            is_none = self.gpu_bytes == 0
        except ValueError as error:
            return [*faults, f"--gpu_memory={self.gpu_memory}: {error}"]
        return [*faults, "--gpu_memory=0 holds no policy"] if is_none else faults
