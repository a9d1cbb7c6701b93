"""Models the step time of several processes.

Compute time is given, in proportion to the local batch.
Communication is a ring. The backward pass overlaps all messages but the last, for at most its own
duration. The remaining communication costs at least what fewer processes were measured to need.
"""

from dataclasses import dataclass

from manyhands.parallel.strategy import Strategy, StrategyKind

BACKWARD_SHARE = 2 / 3
"""Fraction of compute time in the backward pass, which costs twice the forward pass."""
FIRST_BUCKET_BYTES = 1024**2
BUCKET_BYTES = 25 * 1024**2
"""Bucket sizes of DDP."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The communication volume of a policy."""

    gradient_bytes: int
    """Gradients of all trainable parameters."""
    weight_bytes: int
    """All parameters, in the precision of the all-gather."""
    num_units: int
    """Modules whose shards are gathered together."""
    num_gathers: int = 2
    """All-gathers of every sharded weight per step."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """The link from a process to its neighbor."""

    name: str
    gbps: float
    latency_us: float

    def seconds(self, num_bytes: float, num_messages: float) -> float:
        """The time of sequential messages."""
        return num_bytes * 8 / (self.gbps * 1e9) + num_messages * self.latency_us * 1e-6


@dataclass(frozen=True, kw_only=True)
class Update:
    """The time of a step."""

    compute_s: float
    exchange_s: float
    """All communication, overlapped or not."""
    overlap: float
    """Fraction of communication that may overlap the backward pass."""
    least_s: float = 0.0
    """Measured cost of communication between fewer processes."""

    @property
    def hidden_s(self) -> float:
        """Overlapped communication, which costs nothing."""
        return min(self.overlap * self.exchange_s, BACKWARD_SHARE * self.compute_s)

    @property
    def step_s(self) -> float:
        """The step time."""
        return self.compute_s + max(self.least_s, self.exchange_s - self.hidden_s)

    @property
    def communication_share(self) -> float:
        """Fraction of the step time spent on communication that is not overlapped."""
        return 1 - self.compute_s / self.step_s


def modelled_update(
    compute_s: float, strategy: Strategy, traffic: Traffic, link: Link, overlap: float | None = None
) -> Update:
    """The modelled step of a strategy, from its compute time."""
    num_messages = num_messages_of(strategy, traffic)
    return Update(
        compute_s=compute_s,
        exchange_s=communication_s(strategy, traffic, link),
        overlap=1 - 1 / num_messages if overlap is None else overlap,
    )


def communication_s(strategy: Strategy, traffic: Traffic, link: Link) -> float:
    """All-gather and reduce-scatter within a replica, all-reduce between replicas."""
    shards, replicas = strategy.num_shards, strategy.num_replicas
    num_messages = num_messages_of(strategy, traffic)
    gather_s = ring_s(shards, traffic.weight_bytes, num_messages, link)
    scatter_s = ring_s(shards, traffic.gradient_bytes, num_messages, link)
    # An all-reduce is a reduce-scatter and an all-gather.
    add_s = 2 * ring_s(replicas, traffic.gradient_bytes / shards, num_messages, link)
    return traffic.num_gathers * gather_s + scatter_s + add_s


def ring_s(num_processes: int, num_bytes: float, num_messages: int, link: Link) -> float:
    """Once around a ring: every process sends all slices but one of each message."""
    passed = num_processes - 1
    return link.seconds(num_bytes * passed / num_processes, num_messages * passed)


def num_messages_of(strategy: Strategy, traffic: Traffic) -> int:
    """The number of gradient messages: modules of FSDP, or buckets of DDP."""
    if strategy.kind in (StrategyKind.FSDP, StrategyKind.HSDP):
        return traffic.num_units
    rest = max(0, traffic.gradient_bytes - FIRST_BUCKET_BYTES)
    return 1 + -(-rest // BUCKET_BYTES)
