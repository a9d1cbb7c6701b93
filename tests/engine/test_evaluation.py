"""Evaluation counts every sample once; on several ranks see test_engine.py."""

import sys

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import manyhands
from manyhands.errors import UserError

DATA = TensorDataset(torch.arange(10.0).view(10, 1))


def evaluate(function, batch_size=4):
    with manyhands.Engine(["--device=cpu"]) as engine:
        model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.9))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine.prepare(model, optimizer, lambda model, values: model(values[0]))
        return engine.evaluate(function, DATA, batch_size)


@pytest.mark.parametrize("batch_size", [1, 3, 4, 100])
def test_results_come_in_the_order_of_samples_without_dropout(batch_size):
    found = evaluate(lambda model, values: torch.cat([values[0], model(values[0])], 1), batch_size)
    assert found[:, 0].tolist() == [*range(10)]
    steps = found[1:, 1] - found[:-1, 1]
    torch.testing.assert_close(steps, steps[:1].expand(9), rtol=1e-4, atol=1e-5)


def test_a_result_that_is_not_per_sample_is_explained():
    with pytest.raises(UserError, match="the evaluated function must return a tensor with one row"):
        evaluate(lambda model, values: values[0].sum())


SEVEN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
import manyhands

rows = TensorDataset(torch.arange(10_000))
with manyhands.Engine(["--device=cpu", "--launch.num_processes=7"]) as engine:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.prepare(model, optimizer, lambda model, values: None)
    found = engine.evaluate(lambda model, values: values[0], rows, batch_size=300)
    is_exact = engine.world.gather(torch.equal(found, torch.arange(10_000)))
    engine.print(engine.world.size, len(found), is_exact)
"""


@pytest.mark.process
def test_ten_thousand_samples_on_seven_processes_stay_ten_thousand(command):
    printed = command.run([sys.executable, "-c", SEVEN], deadline_s=100.0)
    assert printed.strip() == f"7 10000 {[True] * 7}"
