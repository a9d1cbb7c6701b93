"""What both sides of a comparison do alike; needs torch and safetensors alone."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

COMPUTED = ("vae_encoder_pos_enc", "pos_grid")
"""Ends of the names of tensors that are no weights but tables."""


def scrambled(state: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """A state dict of the same names and shapes in which every weight is drawn anew.

    Fresh policies hold zeros and ones where trained ones do not, which would hide a tensor that
    went to the wrong place.
    """
    generator = torch.Generator().manual_seed(seed)
    return {name: _drawn(name, value, generator) for name, value in sorted(state.items())}


def _drawn(name: str, value: Tensor, generator: torch.Generator) -> Tensor:
    if name.endswith(COMPUTED) or not value.is_floating_point():
        return value.clone()
    noise = torch.randn(value.shape, generator=generator)
    if name.endswith("running_var"):
        return 1 + 0.1 * noise.abs()
    if value.ndim <= 1:
        return 0.1 * noise + (1 if name.endswith(".weight") else 0)
    return noise / math.sqrt(value.numel() / value.shape[0])


@contextmanager
def double_precision(network: nn.Module) -> Iterator[None]:
    """Compute in double precision, where nothing but a mistake makes gradients differ.

    A unit that is barely active on one side and barely not on the other changes a gradient by a
    percent in single precision.
    """
    network.double()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Compute without oneDNN, which chooses its kernels by what it met before.

    On processors without products in bf16, the first of them that it fails at changes all later
    results by the rounding of bf16.
    """
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def as_doubles(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """A batch whose floats have double precision."""
    return {key: each.double() if each.is_floating_point() else each for key, each in batch.items()}


def tick_of(observation: dict[str, Tensor], has_time: bool, number: int) -> dict[str, Tensor]:
    """The observation of one control tick: no time axis, and another one at every tick."""
    current = {key: each[:, -1] if has_time else each for key, each in observation.items()}
    return {key: each.roll(number, dims=0) for key, each in current.items()}


def rolled(observation: dict[str, Any], number: int) -> dict[str, Any]:
    """An observation of texts and tensors in which every sample sees what another one saw."""
    return {
        key: each.roll(number, dims=0)
        if isinstance(each, Tensor)
        else [each[(place - number) % len(each)] for place in range(len(each))]
        for key, each in observation.items()
    }


def save_batch(batch: dict[str, Any], file: Path | str) -> None:
    """Write the tensors and texts of a batch."""
    tensors = {key: each for key, each in batch.items() if isinstance(each, Tensor)}
    texts = {key: json.dumps(each) for key, each in batch.items() if key not in tensors}
    save_file(tensors, file, metadata=texts)


def load_batch(file: Path | str) -> dict[str, Any]:
    """A batch with its texts."""
    with safe_open(file, framework="pt") as opened:
        texts = opened.metadata() or {}
    return load_file(file) | {key: json.loads(each) for key, each in texts.items()}
