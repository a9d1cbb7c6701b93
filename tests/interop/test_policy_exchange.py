"""A policy saved by one side loads on the other, and means the same to both."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from both_sides import as_doubles, double_precision, tick_of
from policy_cases import CASES, MODES, act, make_batch, save_ours, save_theirs
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyhands import load_policy
from manyhands.draws.generator import GeneratorSource
from manyhands.policies.policy import Policy, weighted_loss
from manyhands.types import Batch

SEED = 1234
NUM_TICKS = 8
"""More than any case executes of one chunk."""

ROUNDING = 5e-6
"""Single precision, but not in the same order: here images and norms are scaled by one product."""
SAMPLING_ROUNDING = 2e-5
"""Denoising feeds its result back, up to 40 times."""
EXACT_ROUNDING = 1e-6
"""Double precision, but for tables that both sides hold in single precision."""


@pytest.mark.parametrize("writer", ["manyhands", "LeRobot"])
@pytest.mark.parametrize("name", CASES)
def test_a_saved_policy_means_the_same_to_both(name, writer, lerobot, compared, tmp_path):
    case, batch, label = CASES[name], make_batch(CASES[name]), f"{name}, by {writer}"
    save_file(batch, tmp_path / "batch.safetensors")
    if writer == "manyhands":
        save_ours(case, tmp_path / "policy")
    else:
        save_theirs(case, tmp_path / "policy", lerobot)

    theirs, names = their_results(lerobot, tmp_path)
    policy = load_policy(tmp_path / "policy")
    ours = our_results(policy, batch) | our_gradients(policy, starting(theirs, "batch/"))

    compared.same(f"{label}: tensor names", sorted(policy.network.state_dict()), names)
    acting = SAMPLING_ROUNDING if case["type"] == "diffusion" else ROUNDING
    for what, prefix, tolerance in (
        ("normalized batch", "batch/", ROUNDING),
        ("loss in training", "training/loss", ROUNDING),
        ("loss in evaluation", "evaluation/loss", ROUNDING),
        ("loss in double precision", "exact/loss", EXACT_ROUNDING),
        ("gradients in double precision", "gradient/", EXACT_ROUNDING),
        ("predicted chunk", "chunk", acting),
        (f"actions of {NUM_TICKS} ticks", "actions", acting),
    ):
        pair = (starting(values, prefix) for values in (ours, theirs))
        compared(f"{label}: {what}", *pair, tolerance)
    assert compared.faults() == []


@pytest.mark.parametrize("name", ["ACT, VAE, two cameras", "Diffusion, DDPM, random crops"])
def test_a_policy_of_lerobot_is_saved_again_as_it_was(name, lerobot, compared, tmp_path):
    save_theirs(CASES[name], tmp_path / "policy", lerobot)
    load_policy(tmp_path / "policy").save(tmp_path / "again")
    folders = (tmp_path / "again", tmp_path / "policy")
    compared.same(f"{name}, saved again: JSON files", *map(documents_in, folders))
    compared(f"{name}, saved again: all tensors", *map(tensors_in, folders))
    assert compared.faults() == []


def documents_in(folder: Path) -> dict[str, Any]:
    """What the JSON files in a folder say."""
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def tensors_in(folder: Path) -> dict[str, Tensor]:
    """The tensors of all files in a folder."""
    return {
        f"{path.name}/{name}": value
        for path in folder.glob("*.safetensors")
        for name, value in load_file(path).items()
    }


@pytest.mark.parametrize("mode", MODES)
def test_both_sides_normalize_alike(mode, lerobot, compared, tmp_path):
    kinds = ("VISUAL", "STATE", "ENV", "ACTION")
    case = act(1, use_vae=False, normalization_mapping=dict.fromkeys(kinds, mode))
    batch = make_batch(case)
    save_file(batch, tmp_path / "batch.safetensors")
    save_theirs(case, tmp_path / "policy", lerobot)
    theirs, _ = their_results(lerobot, tmp_path)
    ours = our_results(load_policy(tmp_path / "policy"), batch)
    for what, prefix in (("batch", "batch/"), ("predicted chunk", "chunk")):
        pair = (starting(values, prefix) for values in (ours, theirs))
        compared(f"normalized by {mode}: {what}", *pair, ROUNDING)
    assert compared.faults() == []


def their_results(lerobot: Any, folder: Path) -> tuple[dict[str, Tensor], list[str]]:
    """What LeRobot computes, and the tensors it found: those it expects, and no others."""
    out = folder / "theirs.safetensors"
    places = {"folder": folder / "policy", "batch": folder / "batch.safetensors", "out": out}
    found = lerobot("evaluate_policy", **places, seed=SEED, ticks=NUM_TICKS)
    assert (found["missing"], found["unexpected"]) == ([], [])
    return load_file(out), found["names"]


def our_results(policy: Policy, batch: Batch) -> dict[str, Tensor]:
    """What we compute from a raw batch, under the same names."""
    results = {f"batch/{key}": value for key, value in policy.prepare(batch).items()}
    observation = {key: batch[key] for key in policy.config.input_features}
    torch.manual_seed(SEED)
    results["chunk"] = policy.predict_action_chunk(observation)
    torch.manual_seed(SEED)
    has_time = policy.config.observation_offsets is not None
    ticks = [tick_of(observation, has_time, number) for number in range(NUM_TICKS)]
    results["actions"] = torch.stack([policy.select_action(tick) for tick in ticks])
    with torch.no_grad():
        torch.manual_seed(SEED)
        results["evaluation/loss"], _ = policy.eval().training_loss(batch)
        torch.manual_seed(SEED)
        results["training/loss"], _ = policy.train().training_loss(batch)
    return results


def our_gradients(policy: Policy, prepared: dict[str, Tensor]) -> dict[str, Tensor]:
    """The loss of a normalized batch and its gradients, in double precision."""
    inputs = {key.removeprefix("batch/"): each for key, each in as_doubles(prepared).items()}
    network: Any = policy.network
    with double_precision(network):
        torch.manual_seed(SEED)
        terms = network(inputs, network.draw(GeneratorSource(len(inputs["action"]))))
        loss, _ = weighted_loss(terms, network.entry_counts(inputs))
        loss.backward()
    gradients = {name: each.grad for name, each in network.named_parameters()}
    named = {f"gradient/{name}": each.float() for name, each in gradients.items()}
    return {"exact/loss": loss, **named}


def starting(values: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The values whose names begin so."""
    return {name: value for name, value in values.items() if name.startswith(prefix)}
