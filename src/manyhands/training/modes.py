"""Which way to carry out updates a run takes."""

from torch.optim import Optimizer

from manyhands.config.train import TrainConfig
from manyhands.parallel.strategy import Kind
from manyhands.training.execution import Eager, Execution, Recorded, Tell, Work
from manyhands.training.optim import is_replayable
from manyhands.training.regions import Regions
from manyhands.training.rising import Rising


def execution_of(config: TrainConfig, work: Work, optimizer: Optimizer, tell: Tell) -> Execution:
    """The way to carry out updates that a config asks for, where that is possible."""
    mode, world = config.step.mode, work.world
    if mode == "eager" or world.device.type != "cuda":
        return Eager(work.compute)
    if world.strategy.kind not in (Kind.SINGLE, Kind.DDP) or not is_replayable(optimizer):
        tell(
            f"NOTE: updates are computed one operation at a time: --step.mode={mode} is for whole "
            "weights on one GPU per process, and optimizers of one kernel"
        )
        return Eager(work.compute)
    graph = Recorded(work, tell)
    if mode == "graph" or (mode == "auto" and config.cudnn_deterministic):
        return graph
    regions = Regions(work.network, optimizer)
    compiled = Recorded(work, tell, regions)
    return compiled if mode == "compile" else Rising(graph, compiled, regions, work, tell)
