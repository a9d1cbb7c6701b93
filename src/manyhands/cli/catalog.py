"""All commands with the dataclasses of their flags, for the reference and for shell completion."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from manyhands.config.commands.cache import CacheBuildConfig, CacheContentsConfig
from manyhands.config.commands.completion import CompletionConfig
from manyhands.config.commands.convert import ConvertConfig
from manyhands.config.commands.demo import DemoConfig
from manyhands.config.commands.doctor import DoctorConfig
from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.config.commands.plan import PlanConfig
from manyhands.config.commands.push import PushConfig
from manyhands.config.commands.report import ReportConfig
from manyhands.config.commands.status import StatusConfig
from manyhands.config.commands.watch import WatchConfig
from manyhands.config.launch.kubernetes import KubernetesConfig
from manyhands.config.launch.skypilot import SkyPilotConfig
from manyhands.config.launch.slurm import SlurmConfig
from manyhands.config.schema.decoding import Flag, flags_of
from manyhands.config.train import TrainConfig


@dataclass(frozen=True)
class Command:
    """A command with the dataclass of its own flags."""

    name: str
    config: type
    takes_train_flags: bool = False
    describes_data: bool = False
    takes_names: bool = False

    def flags(self) -> Iterator[Flag]:
        """Yield all flags that the command takes."""
        yield from flags_of(self.config)
        if self.takes_train_flags:
            yield from flags_of(TrainConfig)


def all_commands() -> list[Command]:
    """Every command, as the reference lists them."""
    # The benchmarks are a package of their own, which imports this one.
    bench = import_module("manyhands_bench.config")
    return [
        Command("train", TrainConfig),
        Command("eval", EvalCommandConfig),
        Command("demo", DemoConfig),
        Command("report", ReportConfig, takes_names=True),
        Command("watch", WatchConfig, takes_names=True),
        Command("plan", PlanConfig, takes_train_flags=True, describes_data=True),
        Command("launch slurm", SlurmConfig),
        Command("launch kubernetes", KubernetesConfig),
        Command("launch skypilot", SkyPilotConfig),
        Command("status", StatusConfig, takes_names=True),
        Command("push", PushConfig, takes_names=True),
        Command("doctor", DoctorConfig),
        Command("cache build", CacheBuildConfig),
        Command("cache show", CacheContentsConfig),
        Command("cache clear", CacheContentsConfig),
        Command("convert", ConvertConfig),
        Command("completion", CompletionConfig, takes_names=True),
        Command("bench loader", bench.BenchLoaderConfig, takes_train_flags=True),
        Command("bench step", bench.BenchStepConfig, takes_train_flags=True, describes_data=True),
        Command(
            "bench inference",
            bench.BenchInferenceConfig,
            takes_train_flags=True,
            describes_data=True,
        ),
        Command("bench scaling", bench.BenchScalingConfig, takes_train_flags=True),
        Command("bench resume", bench.BenchResumeConfig),
    ]
