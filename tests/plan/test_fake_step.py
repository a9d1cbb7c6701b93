"""Updates of tensors without values."""

from dataclasses import replace

import pytest
import torch

from manyhands.draws.generator import GeneratorSource
from manyhands.plan.fake_step import FakeSteps, StepConditions
from manyhands.plan.gpu_emulation import GpuEmulation, LiveBytes
from manyhands.plan.memory import bytes_of
from manyhands.policies.policy import weighted_loss
from manyhands.policies.synthetic import synthetic_batch

CONDUCT = StepConditions(
    num_samples=64, in_low_precision=True, keeps_gradients=False, has_whole_weights=True
)


def really_taken(policy, conduct):
    """What an update of real tensors keeps at most beside weights."""
    network, live, likeness = (
        policy.train().network,
        LiveBytes(),
        GpuEmulation(conduct.in_low_precision),
    )
    live.count([*network.parameters(), *network.buffers()])
    held = live.now
    with likeness, live:
        batch = synthetic_batch(policy.config, conduct.num_samples, torch.device("cpu"))
        draws = network.draw(GeneratorSource(conduct.num_samples))
        inputs = policy.prepare(batch)
        counts = network.entry_counts(inputs)
        with likeness.autocast():
            terms = network(inputs, draws)
        loss, _ = weighted_loss(terms, counts)
        del terms
        loss.backward()
    return live.most - held


@pytest.mark.parametrize("in_low_precision", [False, True])
@pytest.mark.parametrize("flags", [(), ("--cameras=1", "--image_size=[16, 16]")])
def test_tensors_without_values_take_what_real_ones_do(planned, flags, in_low_precision):
    conduct = replace(CONDUCT, num_samples=2, in_low_precision=in_low_precision)
    _, policy = planned(*flags)
    expected = really_taken(policy, conduct)
    assert FakeSteps(policy).most_bytes(conduct) == pytest.approx(expected, rel=0.01)


def test_activations_grow_with_samples_and_nothing_else_does(planned):
    rehearsals = FakeSteps(planned()[1])
    sizes = [rehearsals.most_bytes(replace(CONDUCT, num_samples=n)) for n in (64, 128, 192)]
    assert sizes[2] - sizes[1] == pytest.approx(sizes[1] - sizes[0], rel=0.02)
    assert sizes[1] > 1.5 * sizes[0]


def test_gradients_that_stay_are_added_and_those_given_away_are_not(planned):
    _, policy = planned("--policy.dim_model=128", "--policy.dim_feedforward=512")
    trained = bytes_of(each for each in policy.network.parameters() if each.requires_grad)
    rehearsals = FakeSteps(policy)
    # So few samples that gradients are most of it.
    conduct = replace(CONDUCT, num_samples=1, in_low_precision=False)
    come = rehearsals.most_bytes(conduct)
    stay = rehearsals.most_bytes(replace(conduct, keeps_gradients=True))
    leave = rehearsals.most_bytes(replace(conduct, has_whole_weights=False))
    assert leave < trained <= come < stay <= come + trained


def test_one_rehearsal_leaves_nothing_for_the_next(planned):
    one, other = FakeSteps(planned()[1]), FakeSteps(planned()[1])
    conducts = [CONDUCT, replace(CONDUCT, keeps_gradients=True, in_low_precision=False)]
    forward = [one.most_bytes(each) for each in conducts]
    backward = [other.most_bytes(each) for each in reversed(conducts)]
    assert forward == backward[::-1]


def test_a_network_without_values_takes_no_memory(planned):
    _, policy = planned()
    FakeSteps(policy)
    assert all(each.untyped_storage().device.type == "meta" for each in policy.network.parameters())
