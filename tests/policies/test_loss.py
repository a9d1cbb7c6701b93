"""Means over entries, whole or as parts of a larger batch."""

import torch

from manyhands.policies.policy import weighted_loss
from manyhands.types import LossTerm


def test_parts_with_the_counts_of_the_whole_add_up_to_its_loss():
    counts = {"a": torch.tensor(6.0), "b": torch.tensor(2.0)}
    whole, _ = weighted_loss(
        {"a": LossTerm(torch.tensor(12.0), 1.0), "b": LossTerm(torch.tensor(3.0), 10.0)}, counts
    )
    parts = [
        weighted_loss(
            {"a": LossTerm(torch.tensor(a), 1.0), "b": LossTerm(torch.tensor(b), 10.0)}, counts
        )
        for a, b in ((4.0, 1.0), (8.0, 2.0))
    ]
    assert whole == sum(loss for loss, _ in parts) == 2.0 + 15.0


def test_a_batch_without_a_valid_entry_has_no_loss():
    loss, means = weighted_loss({"a": LossTerm(torch.tensor(0.0), 1.0)}, {"a": torch.tensor(0.0)})
    assert loss == means["a"] == 0.0
