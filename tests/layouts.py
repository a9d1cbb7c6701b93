"""Tensors in any memory layout, for kernels that walk through memory by themselves.

Read by `runpy` from conftest.py, like every module of tests that several test files use.
"""

from collections.abc import Sequence
from math import prod

import torch
from hypothesis import note
from hypothesis import strategies as st
from torch import Tensor

MAX_GAP, MAX_OFFSET = 3, 5


def any_layout(
    values: Tensor, is_dense: bool = False, max_offset: int = MAX_OFFSET
) -> st.SearchStrategy[Tensor]:
    """The same values with any order of dimensions, padding, steps and storage offset.

    A dense layout has neither padding nor steps.
    """
    counts = [values.ndim * [0], values.ndim * [1]]
    gaps = st.lists(st.integers(0, MAX_GAP), min_size=values.ndim, max_size=values.ndim)
    steps = st.lists(st.sampled_from([1, 1, 2]), min_size=values.ndim, max_size=values.ndim)
    return st.builds(
        lambda order, gaps, steps, offset: laid_out(values, order, gaps, steps, offset),
        st.permutations(range(values.ndim)),
        st.just(counts[0]) if is_dense else st.just(counts[0]) | gaps,
        st.just(counts[1]) if is_dense else st.just(counts[1]) | steps,
        st.integers(0, max_offset),
    )


def laid_out(
    values: Tensor,
    order: Sequence[int],
    gaps: Sequence[int],
    steps: Sequence[int],
    offset: int,
) -> Tensor:
    """The values in memory by an order of dimensions, the last one side by side."""
    sizes = [values.shape[dim] * steps[dim] + gaps[dim] for dim in order]
    # What lies between the values must never be read: it spoils every result.
    poison = float("nan") if values.is_floating_point() else 255
    storage = torch.full((offset + prod(sizes),), poison, dtype=values.dtype, device=values.device)
    inverse = [list(order).index(dim) for dim in range(values.ndim)]
    whole = storage[offset:].view(sizes).permute(inverse)
    chosen = tuple(
        slice(0, size * step, step) for size, step in zip(values.shape, steps, strict=True)
    )
    found = whole[chosen]
    note(f"shape {tuple(found.shape)}, strides {found.stride()}, offset {found.storage_offset()}")
    return found.copy_(values)
