"""Which way to run steps a run takes."""

from torch.optim import Optimizer

from manyhands.config.train import TrainConfig
from manyhands.parallel.strategy import Kind
from manyhands.training.optim import is_replayable
from manyhands.training.step.auto_compile import AutoCompile
from manyhands.training.step.captured import CapturedStep, EagerStep, Log, Step, StepWork
from manyhands.training.step.compiled_modules import CompiledModules
from manyhands.training.step.trial import Trial


def build_step(config: TrainConfig, work: StepWork, optimizer: Optimizer, log: Log) -> Step:
    """The way to run steps that a config asks for, where that is possible."""
    mode, world = config.step.mode, work.world
    if mode == "eager" or world.device.type != "cuda":
        return EagerStep(work.compute)
    if world.strategy.kind not in (Kind.SINGLE, Kind.DDP) or not is_replayable(optimizer):
        log(
            f"Running eagerly: --step.mode={mode} needs a full copy of the weights on one GPU per "
            "process, and a fused optimizer"
        )
        return EagerStep(work.compute)
    graph = CapturedStep(work, log)
    if mode == "graph" or (mode == "auto" and config.cudnn_deterministic):
        return graph
    modules = CompiledModules(work.policy.network, optimizer)
    if mode == "compile":
        return CapturedStep(work, log, modules)
    compiled = CapturedStep(work, log, modules, otherwise="running as a CUDA graph")
    return AutoCompile(graph, compiled, Trial(config, work), config.step.compile_min_left_s, log)
