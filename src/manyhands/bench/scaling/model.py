"""How long an update takes on processes that are not there, from what is known of those that are.

Computing takes what was measured on the most processes that there are, in proportion to the samples
of each. Exchange goes around a ring of processes. A part of it hides behind the backward pass: all
messages but the last, and never more than that pass takes. What is left costs no less than it was
measured to cost among fewer processes.
"""

from dataclasses import dataclass

from manyhands.parallel.strategy import Kind, Strategy

BACKWARD_SHARE = 2 / 3
"""The part of computing that the backward pass is: it costs twice the forward pass."""
FIRST_BUCKET_BYTES = 1024**2
BUCKET_BYTES = 25 * 1024**2
"""How much of the gradients DDP sends at a time."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a policy has to exchange."""

    gradient_bytes: int
    """Gradients of all parameters that are trained."""
    weight_bytes: int
    """All parameters, in the precision in which shards travel."""
    num_units: int
    """Layers whose shards are gathered at a time."""
    num_gathers: int = 2
    """Times that every weight is gathered for an update, where weights are sharded."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """What carries messages from a process to its neighbor."""

    name: str
    gbps: float
    latency_us: float

    def seconds(self, num_bytes: float, num_messages: float) -> float:
        """How long some messages take, one after the other."""
        return num_bytes * 8 / (self.gbps * 1e9) + num_messages * self.latency_us * 1e-6


@dataclass(frozen=True, kw_only=True)
class Update:
    """Where the time of an update goes."""

    compute_s: float
    exchange_s: float
    """All of the exchange, hidden or not."""
    overlap: float
    """The share of the exchange that may hide behind the backward pass."""
    least_s: float = 0.0
    """What an exchange among fewer processes was measured to cost."""

    @property
    def hidden_s(self) -> float:
        """The part of the exchange that costs nothing."""
        return min(self.overlap * self.exchange_s, BACKWARD_SHARE * self.compute_s)

    @property
    def step_s(self) -> float:
        """How long the update takes."""
        return self.compute_s + max(self.least_s, self.exchange_s - self.hidden_s)

    @property
    def communication_share(self) -> float:
        """The part of the update that the exchange costs beyond computing."""
        return 1 - self.compute_s / self.step_s


def modelled_update(
    compute_s: float, strategy: Strategy, traffic: Traffic, link: Link, overlap: float | None = None
) -> Update:
    """An update of processes that compute for some time and exchange as their strategy says."""
    num_messages = num_messages_of(strategy, traffic)
    return Update(
        compute_s=compute_s,
        exchange_s=exchange_s(strategy, traffic, link),
        overlap=1 - 1 / num_messages if overlap is None else overlap,
    )


def exchange_s(strategy: Strategy, traffic: Traffic, link: Link) -> float:
    """Gathering shards and scattering gradients within a copy, and adding gradients of copies."""
    shards, replicas = strategy.num_shards, strategy.num_replicas
    num_messages = num_messages_of(strategy, traffic)
    gather_s = ring_s(shards, traffic.weight_bytes, num_messages, link)
    scatter_s = ring_s(shards, traffic.gradient_bytes, num_messages, link)
    # Adding up is scattering sums and gathering them again.
    add_s = 2 * ring_s(replicas, traffic.gradient_bytes / shards, num_messages, link)
    return traffic.num_gathers * gather_s + scatter_s + add_s


def ring_s(num_processes: int, num_bytes: float, num_messages: int, link: Link) -> float:
    """Once around a ring: every process passes on all parts but one, of each message."""
    passed = num_processes - 1
    return link.seconds(num_bytes * passed / num_processes, num_messages * passed)


def num_messages_of(strategy: Strategy, traffic: Traffic) -> int:
    """Messages that the gradients travel in: layer by layer, or in DDP's buckets."""
    if strategy.kind in (Kind.FSDP, Kind.HSDP):
        return traffic.num_units
    rest = max(0, traffic.gradient_bytes - FIRST_BUCKET_BYTES)
    return 1 + -(-rest // BUCKET_BYTES)
