"""Recorded episodes to evaluate on, and how many predictions are compared with them."""

from collections.abc import Iterator
from dataclasses import dataclass

from manyhands.config.sections.dataset import NamedDatasetConfig
from manyhands.config.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class EvaluatedDatasetConfig(NamedDatasetConfig):
    """Recorded episodes to evaluate on, instead of a simulation."""

    episodes: list[int] | None = None
    """Episodes; null: those that training held out, else all."""

    @property
    def is_named(self) -> bool:
        """Whether the config names a dataset."""
        return self.repo_id is not None or self.root is not None


@dataclass(frozen=True, kw_only=True)
class OpenLoopConfig:
    """Open-loop evaluation on recorded episodes."""

    stride: int | None = None
    """Frames between two predictions; null: actions executed of a chunk."""
    max_samples: int = 2000
    """Most predictions, spread evenly over the episodes; 0: no limit."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        rules = {"stride": 1, "max_samples": 0}
        return [
            f"--open_loop.{name}={getattr(self, name)} must be at least {least}"
            for name, least in rules.items()
            if getattr(self, name) is not None and getattr(self, name) < least
        ]


def open_loop_faults(config: TrainConfig) -> Iterator[str]:
    """Yield every reason why a run cannot compare actions, if that is requested."""
    if not config.eval.open_loop:
        return
    flag = "--eval.open_loop=true"
    if config.eval_steps == 0:
        yield f"{flag} needs held-out episodes. Set --dataset.eval_split=0.1 and --eval_steps=1000"
    if config.dataset.mix is not None:
        yield f"{flag} compares with one dataset, but --dataset.mix names several. Remove it"
    if config.cache.vision_tokens:
        yield f"{flag} reads images, but --cache.vision_tokens=true replaces them. Remove one"
