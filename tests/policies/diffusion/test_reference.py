"""Policies that LeRobot trained and saved, and what it computed with them."""

import json

import pytest
import torch
from safetensors.torch import load_file

from manyhands.policies.load import load_policy


@pytest.fixture(params=["diffusion_ddpm", "diffusion_ddim_sample"])
def folder(request, shared):
    """A policy that LeRobot saved, beside a raw batch and its own results."""
    return shared / "fixtures" / "policies" / request.param


@pytest.fixture
def reference(folder):
    """The policy, the batch, and the results."""
    expected = json.loads((folder / "expected.json").read_text())
    tensors = load_file(folder / "expected.safetensors")
    return load_policy(folder), load_file(folder / "batch.safetensors"), expected | tensors


def test_losses_and_gradients_are_lerobots(reference):
    policy, batch, expected = reference
    torch.manual_seed(expected["torch_manual_seed_before_train_forward"])
    loss, terms = policy.train().training_loss(batch)
    loss.backward()
    gradients = [parameter.grad.double() for parameter in policy.network.parameters()]
    assert loss.item() == pytest.approx(expected["train_loss"], rel=1e-6)
    assert terms == {"mse_loss": loss}
    grad_norm = torch.nn.utils.get_total_norm(gradients)
    assert grad_norm.item() == pytest.approx(expected["grad_norm"], rel=1e-5)


def test_normalized_inputs_are_lerobots(reference):
    policy, batch, expected = reference
    prepared = policy.prepare(batch)
    for name, key in (("observation.state", "normalized_state"), ("action", "normalized_action")):
        torch.testing.assert_close(prepared[name], expected[key], rtol=0, atol=1e-6)
    environment = "observation.environment_state"
    assert torch.equal(prepared[environment], batch[environment])


def test_chunks_are_lerobots(reference):
    policy, batch, expected = reference
    draws = {"sampling_noise": batch["sampling_noise"]}
    with torch.no_grad():
        torch.manual_seed(expected["torch_manual_seed_before_sampling"])
        chunk = policy.network.predict(policy.prepare_observation(batch), draws)
    torch.testing.assert_close(chunk, expected["chunk"], rtol=0, atol=1e-5)
    torch.manual_seed(expected["torch_manual_seed_before_sampling"])
    actions = policy.predict_action_chunk(batch, draws)
    torch.testing.assert_close(actions, expected["actions"], rtol=0, atol=4e-5)


def test_a_saved_policy_equals_the_one_lerobot_saved(folder, tmp_path):
    source = folder / "pretrained_model"
    load_policy(source).save(tmp_path)
    for path in tmp_path.glob("*.json"):
        assert json.loads(path.read_text()) == json.loads((source / path.name).read_text())
    for path in tmp_path.glob("*.safetensors"):
        ours, theirs = load_file(path), load_file(source / path.name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], value) for key, value in theirs.items())
