"""The config of an engine for a model of one's own: flags of `manyhands train` that concern it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.check import config_faults, device_faults
from manyhands.config.schema.command_line import read_flags
from manyhands.config.schema.decoding import Decoder
from manyhands.config.schema.help import help_text
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.train import DEFAULT_STEPS, AcceleratorConfig, LaunchConfig, TrainConfig
from manyhands.errors import ConfigError, HelpShown

USAGE = "Flags of the engine, as in manyhands train:"


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Settings of an engine: the flags of `manyhands train` that apply to any model."""

    output_dir: Path | None = None
    """Folder of checkpoints, from which the same command continues; null: none are saved."""
    seed: int = 1000
    """Seed of weights, data order and noise."""
    device: str | None = None
    """Device: cpu, cuda or cuda:N; null: cuda if available."""
    save_freq: int = 0
    """Steps between checkpoints; 0: only where the program saves, and on a stop request."""
    keep_last: int | None = None
    """Number of newest checkpoints to keep; null: all."""
    checkpoint_format: str | None = None
    """With --parallelism.dp_shard: safetensors (gathered), dcp (shards), safetensors_dcp (null)."""
    cudnn_deterministic: bool = False
    """Use only deterministic GPU kernels; slower."""
    accelerator: AcceleratorConfig = field(default_factory=AcceleratorConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)
    timeout_s: float = 1800.0
    """Seconds a process may wait for the others before the run ends and prints their stacks."""

    @property
    def run(self) -> TrainConfig:
        """The config of a run that has neither a policy nor a dataset."""
        return TrainConfig(
            output_dir=self.output_dir,
            seed=self.seed,
            steps=DEFAULT_STEPS,
            save_freq=self.save_freq,
            keep_last=self.keep_last,
            checkpoint_format=self.checkpoint_format,
            cudnn_deterministic=self.cudnn_deterministic,
            accelerator=self.accelerator,
            parallelism=self.parallelism,
            launch=self.launch,
            timeout_s=self.timeout_s,
        )

    def faults(self) -> Iterator[str]:
        """Yield every reason why this run cannot work."""
        yield from config_faults(self.run, already_named=("dataset", "policy"))
        yield from device_faults("--device", self.device)
        if self.launch.max_restarts > 0:
            yield "--launch.max_restarts is a flag of manyhands train. Start the program again"
        if self.save_freq > 0 and self.output_dir is None:
            yield f"--save_freq={self.save_freq} needs a folder. Set --output_dir"


def read_engine_config(flags: Sequence[str]) -> EngineConfig:
    """Read the config from flags; raises ConfigError with every fault found."""
    command_line = read_flags(flags)
    if "help" in command_line.switches:
        print(help_text(EngineConfig, USAGE))
        raise HelpShown
    decoder = Decoder(EngineConfig)
    config = decoder.section(EngineConfig, command_line.tree)
    faults = decoder.faults or [*config.faults()]
    if faults:
        raise ConfigError(faults)
    return config
