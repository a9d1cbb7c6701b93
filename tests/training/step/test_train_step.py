"""Inputs of an update."""

import torch

from manyhands.training.step.train_step import StepInputs


def test_all_tensors_are_changed_and_none_changes_its_place():
    inputs = StepInputs({"a": torch.ones(2)}, {"b": torch.zeros(1), "c": torch.ones(1)})
    more = inputs.mapped(lambda value: value + 1)
    assert more.batch["a"].tolist() == [2, 2]
    assert [*more.keys] == ["b", "c"] and more.keys["c"] == 2
    assert inputs.batch["a"].tolist() == [1, 1]
