"""Predicts for one group of episodes while the environments of the others are served."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch
from torch import Tensor

from manyhands.evaluation.actor import Actor, ChunkRequest
from manyhands.evaluation.rollout_control import RolloutControl

Chunks = list[Tensor]


class Predictions:
    """Predictions in a thread, one after the other."""

    def __init__(self, actor: Actor, max_steps: int, control: RolloutControl) -> None:
        self._actor = actor
        self._max_steps = max_steps
        self._control = control
        is_on_gpu = actor.device.type == "cuda"
        stream = torch.cuda.current_stream(actor.device) if is_on_gpu else None
        self._thread = ThreadPoolExecutor(1, "predictions", use_stream, (stream,))
        self._requested: dict[int, Future[Chunks]] = {}

    def request(self, group: int, requests: Sequence[ChunkRequest]) -> None:
        """Predict for a group once those requested before are done."""
        self._requested[group] = self._thread.submit(self._chunks, requests)

    @property
    def groups(self) -> set[int]:
        """The groups whose chunks have not been taken yet."""
        return {*self._requested}

    def wait(self, timeout_s: float) -> None:
        """Wait for a prediction, or for a while."""
        wait([*self._requested.values()][:1], timeout_s)

    def take(self) -> list[tuple[int, Chunks]]:
        """The groups that have been predicted, and the chunk of each request."""
        done = [group for group, future in self._requested.items() if future.done()]
        return [(group, self._requested.pop(group).result()) for group in done]

    def close(self) -> None:
        """Wait for a prediction that has begun, and drop the others."""
        self._thread.shutdown(cancel_futures=True)

    def _chunks(self, requests: Sequence[ChunkRequest]) -> Chunks:
        with self._control.predicting():
            return self._actor.chunks(requests, self._max_steps)


def use_stream(stream: torch.cuda.Stream | None) -> None:
    """Work on a GPU stream: a new thread would use another one, and the first GPU."""
    if stream is not None:
        torch.cuda.set_device(stream.device)
        torch.cuda.set_stream(stream)
