"""The state of a model in training."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import manyhands
from manyhands.engine.learner import restore_setting, schedule_state
from manyhands.errors import UserError

OPTIMIZERS = {
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=0.1),
    "fused": lambda weights: torch.optim.AdamW(weights, lr=0.1, fused=True),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "rmsprop": lambda weights: torch.optim.RMSprop(weights, lr=0.1),
    "adagrad": lambda weights: torch.optim.Adagrad(weights, lr=0.1),
}
DATA = TensorDataset(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)))


def squares(model, values):
    return model(values[0]).square()


def train(folder, make, num_epochs, losses=squares):
    """The weights of a single process after some epochs."""
    with manyhands.Engine(["--device=cpu", f"--output_dir={folder}"]) as engine:
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = make(model.parameters())
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
        engine.prepare(model, optimizer, losses, schedule)
        results = []
        for _, batches in engine.epochs(DATA, num_epochs, 4):
            results += [engine.step(batch, max_grad_norm=1.0) for batch in batches]
            schedule.step()
            engine.save()
        state = {name: value.clone() for name, value in model.state_dict().items()}
        return state, schedule.get_last_lr(), results


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_any_optimizer_schedule_and_dropout_continue_bit_by_bit(tmp_path, kind):
    whole = train(tmp_path / "whole", OPTIMIZERS[kind], 5)
    train(tmp_path / "parts", OPTIMIZERS[kind], 2)
    parts = train(tmp_path / "parts", OPTIMIZERS[kind], 5)
    assert all(torch.equal(whole[0][name], parts[0][name]) for name in whole[0])
    assert whole[1] == parts[1] == [0.025]


def test_a_step_that_is_not_finite_changes_nothing(tmp_path):
    def spoiled(model, values):
        return squares(model, values) * float("nan")

    before, _, _ = train(tmp_path / "before", OPTIMIZERS["adamw"], 0)
    after, _, results = train(tmp_path / "run", OPTIMIZERS["adamw"], 1, spoiled)
    assert all(result.loss.isnan() and not result.grad_norm.isfinite() for result in results)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_parameter_without_a_gradient_is_named(tmp_path):
    def half(model, values):
        return model[0](values[0]).square()

    with pytest.raises(UserError, match=r"2\.weight, 2\.bias"):
        train(tmp_path / "run", OPTIMIZERS["sgd"], 1, half)


def test_a_schedule_stores_its_progress_and_leaves_constants_to_the_program():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    stored = schedule_state(schedule)
    assert stored["last_epoch"] == 0 and "milestones" not in stored
    squared = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    assert schedule_state(squared)["last_epoch"] == 0


def test_settings_keep_their_kind():
    group = {"lr": torch.tensor(0.1), "betas": (0.9, 0.99), "eps": 1.0}
    rate = group["lr"]
    for name, value in {"lr": 0.5, "betas": [0.8, 0.9], "eps": 2.0}.items():
        restore_setting(group, name, value)
    assert rate.item() == 0.5 and group["lr"] is rate
    assert group["betas"] == (0.8, 0.9) and group["eps"] == 2.0
