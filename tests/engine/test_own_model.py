"""Models of any kind as networks, and their optimizers."""

import pytest
import torch
from torch import nn

from manyhands.engine.own_model import (
    OwnModel,
    evaluation_mode,
    loss_terms,
    parameter_names,
    per_sample,
    rebind,
    reject_batch_norm,
)
from manyhands.errors import ConfigError, UserError


def test_losses_are_summed_over_the_samples_that_count():
    network = OwnModel(nn.Identity())
    function = loss_terms(lambda model, values: model(values))
    batch = {"function": function, "weights": torch.tensor([1.0, 1.0, 0.0])}
    terms = network(batch | {"values": torch.tensor([[1.0, 3.0], [4.0, 4.0], [9.0, 9.0]])}, {})
    assert terms["loss"].total.item() == 6.0 and terms["loss"].weight == 1.0


def test_losses_in_half_precision_are_added_in_full_precision():
    assert per_sample(torch.ones(2, dtype=torch.bfloat16), 2, "it").dtype == torch.float32
    assert per_sample(torch.ones(2, dtype=torch.float64), 2, "it").dtype == torch.float64


@pytest.mark.parametrize("found", [torch.tensor(1.0), torch.ones(3), 2.0])
def test_a_loss_without_a_row_per_sample_is_explained(found):
    with pytest.raises(UserError, match=r'of 2 samples here, not .*reduction="none"'):
        per_sample(found, 2, "the loss function")


def test_batch_norm_is_rejected_on_several_ranks_only():
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    reject_batch_norm(model, 1)
    reject_batch_norm(nn.Linear(1, 1), 2)
    with pytest.raises(ConfigError, match=r"batch norm \(1\) on 2 processes.*GroupNorm"):
        reject_batch_norm(model, 2)


def test_modules_return_to_their_own_modes():
    model = nn.Sequential(nn.Dropout(), nn.Dropout())
    model[1].eval()
    with evaluation_mode(model):
        assert not model[0].training and not torch.is_grad_enabled()
    assert [module.training for module in model] == [True, False]


def test_an_optimizer_follows_replaced_parameters_with_its_state():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adagrad(model.parameters(), initial_accumulator_value=0.5)
    names = parameter_names(model, optimizer)
    model.weight = nn.Parameter(torch.ones(1, 2))
    rebind(optimizer, names, model)
    assert optimizer.param_groups[0]["params"][0] is model.weight
    assert optimizer.state[model.weight]["sum"].tolist() == [[0.5, 0.5]]
    assert len(optimizer.state) == 2


def test_an_optimizer_of_another_model_is_rejected():
    optimizer = torch.optim.SGD(nn.Linear(5, 1).parameters(), lr=0.1)
    with pytest.raises(UserError, match=r"of shapes \[\(1, 5\), \(1,\)\]"):
        parameter_names(nn.Linear(2, 1), optimizer)
