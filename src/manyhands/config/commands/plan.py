"""Flags of `manyhands plan`."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.config.check import amount_faults
from manyhands.config.commands.synthetic_data import SyntheticDataConfig
from manyhands.config.paths.output import json_faults
from manyhands.config.schema.rules import at_least
from manyhands.units import parse_bytes

USUAL_GPUS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class PlanConfig(SyntheticDataConfig):
    """Flags of the estimates for a run."""

    gpus: list[int] | None = None
    """Numbers of GPUs; null: by --launch.num_processes or gpus_per_process, else [1, 2, 4, 8]."""
    gpu_memory: str | None = None
    """Memory of each GPU, as 80GiB; null: that of the GPU in this machine, if any."""
    num_samples: int | None = None
    """Without a dataset: samples of an epoch."""
    probe: bool = False
    """Time some steps on this machine, to estimate how long runs take."""
    benchmark: Path | None = None
    """Results of manyhands bench step --json=FILE with the same policy, instead of --probe."""
    json: Path | None = None
    """JSON file for the plan."""

    @property
    def gpu_bytes(self) -> int | None:
        """Memory of each GPU, where it is given."""
        return None if self.gpu_memory is None else parse_bytes(self.gpu_memory)

    def faults(self) -> list[str]:
        """Return every invalid value."""
        faults = [*super().faults(), *at_least(self, "", 1, "num_samples")]
        faults += json_faults(self.json)
        if self.probe and self.benchmark is not None:
            faults.append("--probe and --benchmark exclude each other. Remove one")
        gpus = self.gpus
        if gpus is not None and (not gpus or min(gpus) < 1):
            faults.append(f"--gpus={gpus} must be integers from 1")
        wrong = [*amount_faults("gpu_memory", self.gpu_memory)]
        if not wrong and self.gpu_bytes == 0:
            wrong.append("--gpu_memory=0 is too small for any policy")
        return [*faults, *wrong]
