"""SmolVLA policies that LeRobot saved, and what it computed with them."""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.lerobot_format.policy.folder import load_weights, read_config, read_processors
from manyhands.policies.build import assemble_policy
from manyhands.policies.load import find_policy
from manyhands.policies.policy import Policy
from manyhands.types import Batch

MODES = {"exact": True, "fast": False}
DRAWS = ("noise", "time", "sampling_noise")
ROUNDING = 1e-6
"""Relative: LeRobot's own losses lie half of that from those in double precision, and ours lie on
either side, depending on the kernels that torch chooses. It chooses others once it has found that
a processor has no bf16 products, which earlier tests may have made it find."""


class Reference(NamedTuple):
    """A policy LeRobot saved, a raw batch with its draws, and what LeRobot computed from it."""

    policy: Policy
    batch: Batch
    draws: dict[str, Tensor]
    expected: dict[str, Any]


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture(params=["smolvla_default", "smolvla_selfattn"])
def reference(request, mode, shared, monkeypatch):
    pytest.importorskip("transformers", reason="pip install 'manyhands[smolvla]'")
    # Their configurations name the vision-language model as it lies beside them.
    monkeypatch.chdir(shared / "fixtures" / "policies")
    folder = shared / "fixtures" / "policies" / request.param
    batch = load_file(folder / "batch.safetensors")
    draws = {name: batch.pop(name) for name in DRAWS}
    batch["task"] = json.loads((folder / "tasks.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())
    expected |= load_file(folder / "expected.safetensors")
    saved = find_policy(folder)
    config = replace(read_config(saved), random_vlm=True, exact=MODES[mode])
    policy = assemble_policy(config, read_processors(saved))
    load_weights(policy.network, saved)
    return Reference(policy.eval(), batch, draws, expected)


def test_losses_and_gradients_are_lerobots(reference):
    policy, batch, draws, expected = reference
    loss, terms = policy.train().training_loss(batch, draws)
    loss.backward()
    learning = [each for each in policy.network.parameters() if each.requires_grad]
    grad_norm = torch.nn.utils.get_total_norm([each.grad for each in learning])

    assert loss.item() == pytest.approx(expected["train_loss"], rel=ROUNDING)
    assert terms["mse_loss"].item() == loss.item()
    assert grad_norm.item() == pytest.approx(expected["grad_norm"], rel=2e-6)
    assert len(learning) == expected["num_trainable"]
    assert len(policy.network.state_dict()) == expected["num_tensors"] == 124


def test_losses_in_double_precision_are_lerobots_but_for_its_rounding(reference):
    policy, batch, draws, expected = reference
    loss, _ = policy.to("cpu", torch.float64).training_loss(batch, draws)
    assert loss.dtype is torch.float64
    assert loss.item() == pytest.approx(expected["train_loss"], rel=ROUNDING)


def test_inputs_are_lerobots(reference):
    policy, batch, _, expected = reference
    prepared = policy.prepare(batch)
    assert torch.equal(prepared[LANGUAGE_TOKENS], expected["language_tokens"].long())
    assert torch.equal(prepared[LANGUAGE_MASK], expected["language_mask"].bool())
    state = prepared["observation.state"]
    torch.testing.assert_close(state, expected["normalized_state"], rtol=0, atol=1e-6)


def test_chunks_are_lerobots(reference):
    policy, batch, draws, expected = reference
    with torch.no_grad():
        chunk = policy.network.predict(policy.prepare_observation(batch), draws)
    torch.testing.assert_close(chunk, expected["chunk"], rtol=0, atol=5e-6)
    actions = policy.predict_action_chunk(batch, draws)
    torch.testing.assert_close(actions, expected["actions"], rtol=0, atol=1e-5)


def test_losses_of_texts_at_full_length_are_the_same(reference):
    policy, batch, draws, expected = reference
    padded = policy.tokenized(batch, at_full_length=True)
    assert padded[LANGUAGE_TOKENS].shape == (3, 48)
    loss, _ = policy.training_loss(padded, draws)
    assert loss.item() == pytest.approx(expected["train_loss"], rel=ROUNDING)
