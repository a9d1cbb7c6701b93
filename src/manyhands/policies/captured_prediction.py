"""Predictions as CUDA graphs: one launch submits all kernels of a chunk.

A graph reads the weights where they are, so it follows steps of an optimizer. It is captured when
inputs of the same shapes come for the second time: a single prediction is not delayed.
"""

from typing import Any

import torch
from torch import Tensor

from manyhands.parallel.cuda import capturing, on_side_stream
from manyhands.types import Batch, Draws, Network

MAX_GRAPHS = 4
"""Each holds the memory of one prediction."""

Signature = tuple[Any, ...]


class CapturedPrediction:
    """The predictions of a network on a GPU."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._seen: set[Signature] = set()
        self._graphs: dict[Signature, PredictionGraph] = {}
        self._is_capturable = True

    def __call__(self, observation: Batch, draws: Draws) -> Tensor:
        """The normalized chunk (samples, steps, action)."""
        signature = (signature_of(observation), signature_of(draws), torch.is_autocast_enabled())
        graph = self._graphs.get(signature)
        if graph is None and signature in self._seen and self._is_capturable:
            graph = self._capture(signature, observation, draws)
        self._seen.add(signature)
        if graph is None:
            return self.network.predict(observation, draws)
        return graph.replay(observation, draws)

    def _capture(
        self, signature: Signature, observation: Batch, draws: Draws
    ) -> "PredictionGraph | None":
        if len(self._graphs) == MAX_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        try:
            self._graphs[signature] = PredictionGraph(self.network, observation, draws)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # A network that reads values on the host cannot be captured.
            self._is_capturable = False
            return None
        return self._graphs[signature]


class PredictionGraph:
    """One captured prediction."""

    def __init__(self, network: Network, observation: Batch, draws: Draws) -> None:
        self._inputs = [cloned(observation), cloned(dict(draws))]
        device = next(value.device for value in tensors_of(self._inputs[0]).values())
        random_state = torch.cuda.get_rng_state(device)
        with on_side_stream(device):
            network.predict(*self._inputs)
        self._graph = torch.cuda.CUDAGraph()
        with capturing(self._graph):
            self._chunk = network.predict(*self._inputs)
        # What the warm-up has drawn is drawn again by the first replay.
        torch.cuda.set_rng_state(random_state, device)

    def replay(self, observation: Batch, draws: Draws) -> Tensor:
        """The chunk for other inputs; the next replay does not overwrite it."""
        for held, given in zip(self._inputs, (observation, draws), strict=True):
            for name, value in tensors_of(held).items():
                value.copy_(given[name], non_blocking=True)
        self._graph.replay()
        return self._chunk.clone()


def tensors_of(values: Batch | Draws) -> dict[str, Tensor]:
    """The tensors among the values; texts are tokens already."""
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def cloned(values: Batch) -> Batch:
    """The values, with tensors of their own."""
    return {**values, **{name: value.clone() for name, value in tensors_of(values).items()}}


def signature_of(values: Batch | Draws) -> Signature:
    """What all inputs of one graph have in common."""
    return tuple(
        (name, value.shape, value.dtype) for name, value in sorted(tensors_of(values).items())
    )
