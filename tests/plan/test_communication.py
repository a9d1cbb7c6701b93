"""The time of an update on processes that are not there."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.parallel.strategy import Strategy
from manyhands.plan.communication import (
    BACKWARD_SHARE,
    Link,
    Traffic,
    Update,
    communication_s,
    modelled_update,
    num_messages_of,
)

MIB = 1024**2
TRAFFIC = Traffic(gradient_bytes=200 * MIB, weight_bytes=240 * MIB, num_units=12)
DEGREES = st.builds(
    Strategy, num_replicas=st.integers(1, 16), num_shards=st.sampled_from([1, 2, 4, 8])
)
COMPUTE = st.floats(1e-3, 10)


def link(gbps=100.0, latency_us=5.0):
    return Link(name="a link", gbps=gbps, latency_us=latency_us)


@given(DEGREES, COMPUTE)
def test_a_perfect_link_costs_nothing(strategy, compute_s):
    update = modelled_update(compute_s, strategy, TRAFFIC, link(math.inf, 0))
    assert update.step_s == compute_s and update.communication_share == 0


@given(DEGREES, COMPUTE, st.floats(0.1, 1e4), st.floats(1, 100))
def test_a_faster_link_never_makes_a_step_longer(strategy, compute_s, gbps, factor):
    slow = modelled_update(compute_s, strategy, TRAFFIC, link(gbps))
    fast = modelled_update(compute_s, strategy, TRAFFIC, link(gbps * factor))
    assert fast.step_s <= slow.step_s
    assert 0 <= fast.communication_share <= slow.communication_share < 1


@given(DEGREES, COMPUTE, st.floats(0, 1), st.floats(0, 1))
def test_more_overlap_never_makes_a_step_longer(strategy, compute_s, one, other):
    less, more = (
        modelled_update(compute_s, strategy, TRAFFIC, link(), overlap)
        for overlap in sorted([one, other])
    )
    assert compute_s <= more.step_s <= less.step_s


def test_one_process_exchanges_nothing():
    assert communication_s(Strategy(), TRAFFIC, link()) == 0


def test_ddp_sends_every_gradient_twice_around_but_one_part():
    seconds = communication_s(Strategy(num_replicas=4), TRAFFIC, link(8.0, 0))
    assert seconds == pytest.approx(2 * 3 / 4 * 200 * MIB / 1e9)


def test_shards_gather_weights_twice_and_scatter_gradients_once():
    seconds = communication_s(Strategy(num_shards=4), TRAFFIC, link(8.0, 0))
    assert seconds == pytest.approx(3 / 4 * (2 * 240 + 200) * MIB / 1e9)


def test_copies_of_shards_add_up_a_shard_of_the_gradients():
    within = communication_s(Strategy(num_shards=4), TRAFFIC, link(8.0, 0))
    seconds = communication_s(Strategy(num_replicas=2, num_shards=4), TRAFFIC, link(8.0, 0))
    assert seconds == pytest.approx(within + 2 * 1 / 2 * 50 * MIB / 1e9)


def test_every_message_waits_for_every_neighbor():
    nothing = Traffic(gradient_bytes=0, weight_bytes=0, num_units=5)
    assert communication_s(Strategy(num_replicas=4), nothing, link(1.0, 10)) == pytest.approx(6e-5)
    assert communication_s(Strategy(num_shards=4), nothing, link(1.0, 10)) == pytest.approx(45e-5)


@pytest.mark.parametrize(("size", "number"), [(0, 1), (MIB, 1), (2 * MIB, 2), (200 * MIB, 9)])
def test_ddp_sends_buckets(size, number):
    traffic = Traffic(gradient_bytes=size, weight_bytes=size, num_units=3)
    assert num_messages_of(Strategy(num_replicas=2), traffic) == number
    assert num_messages_of(Strategy(num_shards=2), traffic) == 3


def test_no_more_hides_than_the_backward_pass_takes():
    update = Update(compute_s=0.3, exchange_s=10.0, overlap=1.0)
    assert update.hidden_s == pytest.approx(BACKWARD_SHARE * 0.3)
    assert update.step_s == pytest.approx(0.3 + 10.0 - 0.2)


def test_exchange_costs_no_less_than_it_was_measured_to():
    update = Update(compute_s=1.0, exchange_s=0.5, overlap=1.0, least_s=0.25)
    assert update.step_s == 1.25 and update.communication_share == pytest.approx(0.2)
