"""The least time of an update on a device, which computes and moves bytes only so fast."""

from collections.abc import Sequence
from dataclasses import dataclass

from manyhands.bench.step.demand import Kernel
from manyhands.bench.step.peak import Peak


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """What an update asks for, and how long that takes at best."""

    bytes_per_update: int
    """That kernels of single operations read and write; fused ones move less."""
    peak_bytes_per_s: float
    compute_ms: float
    """If only operations counted."""
    memory_ms: float
    """If only bytes counted."""
    floor_ms: float
    """If every kernel took as long as the slower of both, and nothing else."""


def roofline_of(kernels: Sequence[Kernel], peak: Peak) -> Roofline:
    """The limits of some kernels, one after the other."""
    compute = [kernel.flops / peak.flops_per_s for kernel in kernels]
    memory = [kernel.num_bytes / peak.bytes_per_s for kernel in kernels]
    return Roofline(
        bytes_per_update=sum(kernel.num_bytes for kernel in kernels),
        peak_bytes_per_s=peak.bytes_per_s,
        compute_ms=1e3 * sum(compute),
        memory_ms=1e3 * sum(memory),
        floor_ms=1e3 * sum(map(max, compute, memory)),
    )
