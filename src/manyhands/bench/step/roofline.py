"""Roofline model: the lower bound of the step time on a device."""

from collections.abc import Sequence
from dataclasses import dataclass

from manyhands.bench.step.demand import Kernel
from manyhands.bench.step.peak import Peak


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Memory traffic of a step, and the lower bounds of its time."""

    bytes_per_update: int
    """Traffic of unfused kernels; fused ones move less."""
    peak_bytes_per_s: float
    compute_ms: float
    """Bound by FLOPs only."""
    memory_ms: float
    """Bound by memory traffic only."""
    floor_ms: float
    """Sum over kernels of the larger of both bounds."""


def roofline_of(kernels: Sequence[Kernel], peak: Peak) -> Roofline:
    """The roofline of sequential kernels."""
    compute = [kernel.flops / peak.flops_per_s for kernel in kernels]
    memory = [kernel.num_bytes / peak.bytes_per_s for kernel in kernels]
    return Roofline(
        bytes_per_update=sum(kernel.num_bytes for kernel in kernels),
        peak_bytes_per_s=peak.bytes_per_s,
        compute_ms=1e3 * sum(compute),
        memory_ms=1e3 * sum(memory),
        floor_ms=1e3 * sum(map(max, compute, memory)),
    )
