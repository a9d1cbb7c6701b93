"""Train robot policies on any number of GPUs with LeRobot's flags, datasets and checkpoints."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manyhands.version import VERSION

if TYPE_CHECKING:
    from manyhands.config.resolve import read_train_config as read_train_config
    from manyhands.config.train import TrainConfig as TrainConfig
    from manyhands.data.dataset import Dataset as Dataset
    from manyhands.data.dataset import open_dataset as open_dataset
    from manyhands.engine.engine import Engine as Engine
    from manyhands.errors import Diverged as Diverged
    from manyhands.errors import UserError as UserError
    from manyhands.launch.outcome import Ending as Ending
    from manyhands.policies.load import load_policy as load_policy
    from manyhands.policies.policy import Policy as Policy
    from manyhands.training.spawn import train as train

__version__ = VERSION

# Found on first use, so that `import manyhands` and the command line do not wait for torch.
_HOMES = {
    "Dataset": "manyhands.data.dataset",
    "Diverged": "manyhands.errors",
    "Ending": "manyhands.launch.outcome",
    "Engine": "manyhands.engine.engine",
    "Policy": "manyhands.policies.policy",
    "TrainConfig": "manyhands.config.train",
    "UserError": "manyhands.errors",
    "load_policy": "manyhands.policies.load",
    "open_dataset": "manyhands.data.dataset",
    "read_train_config": "manyhands.config.resolve",
    "train": "manyhands.training.spawn",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'manyhands' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
