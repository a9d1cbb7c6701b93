"""What an update changes can be put back."""

import torch

from manyhands.training.step.state_backup import StateBackup


def test_everything_is_put_back_and_what_is_new_becomes_zero():
    tensors = {"weight": torch.arange(3.0), "count": torch.tensor(5)}
    backup = StateBackup(lambda: tensors)
    tensors["weight"] += 1
    tensors["count"] += 1
    tensors["momentum"] = torch.ones(3)
    backup.restore()
    assert tensors["weight"].tolist() == [0, 1, 2] and tensors["count"] == 5
    assert not tensors["momentum"].any()


def test_a_distance_is_that_of_all_values_but_counters():
    values = {"weight": torch.zeros(2), "average": torch.zeros(1)}
    counters = {"step": torch.tensor(0.0), "batches": torch.zeros(2, dtype=torch.int64)}
    backup = StateBackup(lambda: values | counters)
    values["weight"] += torch.tensor([2.0, 3.0])
    values["average"] -= 6
    for counter in counters.values():
        counter += 100
    assert backup.distance() == 7


def test_what_was_not_there_yet_counts_once_it_was_put_back():
    tensors = {"weight": torch.zeros(1)}
    backup = StateBackup(lambda: tensors)
    tensors["momentum"] = torch.ones(1)
    backup.restore()
    tensors["momentum"] += 2
    assert backup.distance() == 2
