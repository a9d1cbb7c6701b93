"""Recordings of updates."""

import pytest
import torch

from manyhands.training.step.cuda_graph import CudaGraph, input_signature
from manyhands.training.step.train_step import StepInputs, StepMetrics


def inputs_of(value: float, size: int = 2, device: str = "cpu") -> StepInputs:
    return StepInputs({"x": torch.full((size,), value, device=device)}, {})


def test_a_recording_holds_for_inputs_of_the_same_shapes_and_types():
    assert input_signature(inputs_of(1.0)) == input_signature(inputs_of(2.0))
    assert input_signature(inputs_of(1.0)) != input_signature(inputs_of(1.0, size=3))
    other = StepInputs({"x": torch.ones(2).double()}, {})
    assert input_signature(inputs_of(1.0)) != input_signature(other)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_replay_reads_new_inputs_and_leaves_what_earlier_ones_measured():
    total = torch.zeros((), device="cuda")

    def compute(inputs: StepInputs) -> StepMetrics:
        total.add_(inputs.batch["x"].sum())
        return StepMetrics({"loss": total * 2}, total + 1, total < 0)

    replay = CudaGraph(compute, inputs_of(1.0, device="cuda"))
    first, second = (replay(inputs_of(value, device="cuda")) for value in (3.0, 4.0))
    assert (first.terms["loss"].item(), second.terms["loss"].item()) == (12, 28)
    assert (first.grad_norm.item(), second.grad_norm.item(), total.item()) == (7, 15, 14)
    assert not first.is_bad
