"""Activation checkpointing: recompute activations instead of storing them."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from manyhands.policies.vision.norms import recomputing


def checkpointed(module: nn.Module, *inputs: Any) -> Any:
    """Run a module without dropout; the backward pass runs it again."""

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), recomputing(module)

    return checkpoint(
        module, *inputs, use_reentrant=False, preserve_rng_state=False, context_fn=contexts
    )
