"""A model of one's own as engines see it: a network whose forward pass is any function of it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from manyhands.errors import ConfigError, UserError
from manyhands.parallel.sharded_tensors import shard_like
from manyhands.types import Batch, Draws, LossTerm, LossTerms

Function = Callable[[nn.Module, Any], Tensor]
"""Computes a result per sample from a model and the values of a batch."""
HALVES = (torch.float16, torch.bfloat16)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class OwnModel(nn.Module):
    """Calls functions of a model within its own forward pass, where DDP and FSDP see them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.shard_units = getattr(model, "shard_units", ())

    def forward(self, batch: Batch, draws: Draws) -> Any:
        """The result of the function in the batch."""
        return batch["function"](self.model, batch)


def loss_terms(losses: Function) -> Callable[[nn.Module, Batch], LossTerms]:
    """A function of the sum of the counted losses of a batch."""

    def compute(model: nn.Module, batch: Batch) -> LossTerms:
        weights = batch["weights"]
        found = per_sample(losses(model, batch["values"]), len(weights), "the loss function")
        return {"loss": LossTerm((found * weights).sum(), 1.0)}

    return compute


def per_sample(results: Tensor, num_samples: int, source: str) -> Tensor:
    """One number per sample in full precision: the mean of its entries."""
    check_rows(results, num_samples, source)
    results = results.float() if results.dtype in HALVES else results
    return results.reshape(num_samples, -1).mean(dim=1)


def check_rows(results: Any, num_samples: int, source: str) -> None:
    """Reject results that do not have a row per sample."""
    if isinstance(results, Tensor) and results.shape[:1] == (num_samples,):
        return
    shape = tuple(results.shape) if isinstance(results, Tensor) else type(results).__name__
    raise UserError(
        f"{source} must return a tensor with one row per sample, of {num_samples} samples here, "
        f'not {shape}. For losses of PyTorch, set reduction="none"'
    )


def reject_batch_norm(model: nn.Module, num_ranks: int) -> None:
    """Reject batch norm on several ranks, which would see only their slices of the batch."""
    found = [name for name, module in model.named_modules() if isinstance(module, BATCH_NORMS)]
    if found and num_ranks > 1:
        raise ConfigError(
            f"batch norm ({', '.join(found)}) on {num_ranks} processes would normalize by the "
            "local batch, so that results depend on the number of processes. Use norms without "
            "statistics, such as torch.nn.GroupNorm, or one process"
        )


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Run a block without gradients in evaluation mode, then restore the mode of each module."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, is_training in modes:
            module.training = is_training


def parameter_names(model: nn.Module, optimizer: Optimizer) -> dict[Tensor, str]:
    """The names of the parameters, all of which an optimizer may have."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    for group in optimizer.param_groups:
        strange = [tuple(weight.shape) for weight in group["params"] if weight not in names]
        if strange:
            raise UserError(
                f"the optimizer has parameters that the model does not have, of shapes {strange}. "
                "Build it from model.parameters()"
            )
    return names


def rebind(optimizer: Optimizer, names: Mapping[Tensor, str], model: nn.Module) -> None:
    """Let an optimizer train the parameters that replaced those of the given names, if any."""
    now = dict(model.named_parameters())
    for group in optimizer.param_groups:
        group["params"] = [now[names[weight]] for weight in group["params"]]
    for before, values in list(optimizer.state.items()):
        weight = now[names[before]]
        del optimizer.state[before]
        optimizer.state[weight] = {
            name: moved_like(value, weight) for name, value in values.items()
        }


def moved_like(value: Any, weight: Tensor) -> Any:
    """Optimizer state of a weight where the weight is; step counters stay where they are."""
    if not isinstance(value, Tensor) or value.shape != weight.shape or value.ndim == 0:
        return value
    return shard_like(value.to(weight.device), weight)
