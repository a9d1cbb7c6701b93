"""Where time goes."""

import time

import pytest
import torch

from manyhands.training.setup.assemble import build_learner
from manyhands_bench.step.phases import mark, median_s, passes_of, submission_of, wait_for

CPU = torch.device("cpu")


def test_passes_are_timed_and_change_nothing(open_subject):
    with open_subject() as (_, subject, world):
        learner, _ = build_learner(subject.config, subject.stats, world, subject.split)
        network = learner.policy.network
        before = [weight.detach().clone() for weight in network.parameters()]
        passes = passes_of(learner.policy, subject, world)
        assert passes.forward_s > 0 and passes.backward_s > 0
        assert all(map(torch.equal, before, network.parameters()))
        assert all(weight.grad is None for weight in network.parameters())


def test_moments_on_the_cpu_are_those_of_the_clock():
    start = mark(CPU)
    time.sleep(0.01)
    wait_for(CPU)
    assert 0.01 <= median_s([(start, mark(CPU))]) < 5


@pytest.mark.gpu
@pytest.mark.gpu_serial
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_host_is_done_before_the_gpu():
    device = torch.device("cuda")
    block = torch.ones(8192, 8192, device=device)
    submission = submission_of(lambda _: block.mm(block), 0, device)
    assert 0 < submission.host_s < submission.device_s
