"""Step modes, of which one run may measure several."""

from dataclasses import replace

import torch

from manyhands.config.bench_step import BenchStepConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault

EAGER = "eager"


def modes_of(bench: BenchStepConfig, config: TrainConfig, device: torch.device) -> list[str]:
    """The modes to measure; the first is the main one."""
    asked = config.step.mode
    modes = bench.compare or [asked]
    if device.type == "cuda":
        # The mode of the run comes first.
        return sorted(modes, key=lambda mode: mode != asked)
    if modes not in ([asked], [EAGER]):
        raise EnvironmentFault(
            f"--compare={bench.compare} needs a GPU: on the CPU every mode is {EAGER}"
        )
    return [EAGER]


def with_mode(config: TrainConfig, mode: str) -> TrainConfig:
    """The same run in another mode."""
    return replace(config, step=replace(config.step, mode=mode))
