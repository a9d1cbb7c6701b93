"""Policies that LeRobot trained and saved, and what it computed with them."""

import json
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from manyhands.policies.load import load_policy
from manyhands.policies.policy import Policy
from manyhands.types import Batch

TOLERANCES = {
    "act_vae": 4e-6,
    "act_plain_prenorm": 4e-6,
    "diffusion_ddpm": 1e-5,
    "diffusion_ddim_sample": 1e-5,
}
"""How far raw actions may lie from LeRobot's; denoising adds up the roundings of its steps."""


class Reference(NamedTuple):
    """A policy LeRobot saved, a raw batch, and what LeRobot computed from it."""

    policy: Policy
    batch: Batch
    expected: dict[str, Any]
    tolerance: float

    def draws(self) -> dict[str, Tensor]:
        """The noise LeRobot began with, where it did; later noise it drew from this seed."""
        torch.manual_seed(self.expected.get("torch_manual_seed_before_sampling", 0))
        return {name: self.batch[name] for name in ("sampling_noise",) if name in self.batch}


@pytest.fixture(params=TOLERANCES)
def reference(request, shared):
    folder = shared / "fixtures" / "policies" / request.param
    expected = json.loads((folder / "expected.json").read_text())
    tensors = load_file(folder / "expected.safetensors")
    batch = load_file(folder / "batch.safetensors")
    return Reference(load_policy(folder), batch, expected | tensors, TOLERANCES[request.param])


def test_losses_and_gradients_are_lerobots(reference):
    policy, batch, expected, _ = reference
    torch.manual_seed(expected["torch_manual_seed_before_train_forward"])
    loss, terms = policy.train().training_loss(batch)
    loss.backward()
    gradients = [parameter.grad for parameter in policy.network.parameters()]
    grad_norm = torch.nn.utils.get_total_norm(gradients)

    assert loss.item() == pytest.approx(expected["train_loss"], rel=5e-7)
    assert grad_norm.item() == pytest.approx(expected["grad_norm"], rel=2e-6)
    told = {name: expected[name] for name in ("l1_loss", "kld_loss") if name in expected}
    told = told or {"mse_loss": expected["train_loss"]}
    seen = {name: value.item() for name, value in terms.items()}
    assert seen == pytest.approx(told, rel=5e-7)


@pytest.mark.parametrize("reference", ["act_vae", "act_plain_prenorm"], indirect=True)
def test_losses_without_draws_are_lerobots(reference):
    policy, batch, expected, _ = reference
    loss, _ = policy.eval().training_loss(batch)
    assert loss.item() == pytest.approx(expected["eval_loss"], rel=5e-7)


def test_normalized_inputs_are_lerobots(reference):
    policy, batch, expected, _ = reference
    prepared = policy.prepare(batch)
    for name, key in (("observation.state", "normalized_state"), ("action", "normalized_action")):
        torch.testing.assert_close(prepared[name], expected[key], rtol=0, atol=1e-6)
    environment = "observation.environment_state"
    assert torch.equal(prepared[environment], batch[environment])


def test_chunks_are_lerobots(reference):
    policy, batch, expected, tolerance = reference
    with torch.no_grad():
        chunk = policy.network.predict(policy.prepare_observation(batch), reference.draws())
    torch.testing.assert_close(chunk, expected["chunk"], rtol=0, atol=tolerance / 2)
    actions = policy.predict_action_chunk(batch, reference.draws())
    torch.testing.assert_close(actions, expected["actions"], rtol=0, atol=tolerance)
