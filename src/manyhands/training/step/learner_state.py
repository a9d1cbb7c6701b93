"""Copies and restores weights, EMA and optimizer state of a learner.

The main rank saves full tensors; each rank saves its shards, and any number of ranks can read them
back.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from manyhands.checkpoint.shards import Shards
from manyhands.config.runs.run_dir import PRETRAINED
from manyhands.lerobot_format.checkpoint import flat_state, nested_state, parameter_index
from manyhands.lerobot_format.policy.folder import read_matching_weights, saved_tensors
from manyhands.parallel.host_buffers import HostBuffers
from manyhands.parallel.sharded_tensors import TensorShard, fill, gathered, local_shards
from manyhands.parallel.world import World
from manyhands.training.step.ema import Ema, NoEma
from manyhands.training.step.optimizer import portable_groups, restore_state


class LearnerState:
    """The weights of a network, their EMA, and the optimizer state."""

    def __init__(
        self, network: nn.Module, optimizer: Optimizer, ema: Ema | NoEma, world: World
    ) -> None:
        self._network = network
        self._optimizer = optimizer
        self._ema = ema
        self._is_main = world.is_main
        self._strategy = world.strategy
        self._copies: defaultdict[Hashable, HostBuffers] = defaultdict(HostBuffers)

    @property
    def num_bytes(self) -> int:
        """About the size of all copies: the weights, and two moments of those in training."""
        weights = list(self._network.parameters())
        sizes = [each.numel() * each.element_size() for each in weights]
        moments = sum(size for size, each in zip(sizes, weights, strict=True) if each.requires_grad)
        return sum(sizes) * len(self._ema.weights) + 2 * moments

    def policies(self) -> dict[str, dict[str, Tensor] | None]:
        """Collective. Copies of full weights by target folder; None where only shards are saved.

        Only the main rank gets them. All copies stay valid until the next ones are made.
        """
        found: dict[str, dict[str, Tensor] | None] = {}
        for ending, weights in self._ema.weights.items():
            found[PRETRAINED + ending] = None
            if self._strategy.saves_full:
                with weights():
                    found[PRETRAINED + ending] = self._gathered(
                        PRETRAINED + ending, saved_tensors(self._network)
                    )
        return found

    def optimizer_state(self, rates: Iterable[float]) -> dict[str, Any]:
        """Collective. A copy of the optimizer state, without its tensors if shards have them."""
        groups = portable_groups(self._optimizer, rates)
        if self._strategy.saves_shards:
            return {"state": {}, "param_groups": groups}
        saved = self._optimizer.state_dict()["state"]
        state = {index: self._gathered(index, values) for index, values in saved.items()}
        return {"state": state, "param_groups": groups}

    def shards(self) -> dict[str, TensorShard]:
        """Copies of the shards of this rank; empty if the main rank saves full tensors."""
        if not self._strategy.saves_shards:
            return {}
        parts: dict[str, TensorShard] = {}
        for ending, weights in self._ema.weights.items():
            with weights():
                named = named_in(PRETRAINED + ending, self._network)
                parts |= local_shards(named, self._is_main, self._copies["shards"])
        remembered = flat_state(self._optimizer.state_dict()["state"])
        return parts | local_shards(remembered, self._is_main, self._copies["shards"])

    def _gathered(self, group: Hashable, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return gathered(values, self._is_main, self._copies[group])

    def load_policy(self, folder: Path, shards: Shards | None) -> None:
        """Load saved weights; the EMA starts from them."""
        self._load_weights(folder, shards)
        self._ema.restart()

    def load_average(self, folder: Path, shards: Shards | None) -> None:
        """Load the EMA from the weights of a saved policy."""
        with self._ema.weights["_ema"]():
            self._load_weights(folder, shards)

    def _load_weights(self, folder: Path, shards: Shards | None) -> None:
        if shards is None:
            fill(saved_tensors(self._network), read_matching_weights(self._network, folder))
        else:
            shards.read_into(named_in(folder.name, self._network))

    def load_optimizer(self, saved: dict[str, Any], shards: Shards | None) -> None:
        """Load optimizer state; hyper-parameters stay as they are."""
        if shards is not None:
            targets = self._empty_state(shards)
            shards.read_into(targets)
            saved = saved | {"state": nested_state(targets, shards.folder)}
        restore_state(self._optimizer, saved)

    def _empty_state(self, shards: Shards) -> dict[str, Tensor]:
        """Empty tensors for the optimizer state in shards, sharded like the weights."""
        weights = [weight for group in self._optimizer.param_groups for weight in group["params"]]
        state = {}
        for key, shape in shards.shapes.items():
            place = parameter_index(key)
            if place is None:
                continue
            fits = place < len(weights) and weights[place].shape == shape
            state[key] = torch.zeros_like(weights[place]) if fits else torch.zeros(shape)
        return state


def named_in(folder: str, network: nn.Module) -> dict[str, Tensor]:
    """The saved tensors of a network, by their names in shards."""
    return {f"{folder}/{name}": value for name, value in saved_tensors(network).items()}
