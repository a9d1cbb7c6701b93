"""A SmolVLA, or adapters for one, saved by one side means the same to the other."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from both_sides import plain_kernels, rolled, save_batch, scrambled
from comparison import Comparison
from lerobot_process import LeRobot
from policy_cases import Document, make_batch, save_ours, save_theirs, smolvla
from recordings import record_ours
from safetensors.torch import load_file
from test_policy_exchange import documents_in, starting, tensors_in
from torch import Tensor

from manyhands.config.sections.peft import PeftConfig
from manyhands.lerobot_format.policy.folder import (
    file_name,
    load_weights,
    read_config,
    read_processors,
)
from manyhands.policies.adapters import adapt, new_settings
from manyhands.policies.build import assemble_policy
from manyhands.policies.load import prepare_adapters
from manyhands.policies.policy import Policy
from manyhands.types import Batch

SEED = 1234
NUM_TICKS = 6
"""More than a chunk has."""
TASKS = ["pick up the cube", "open the topmost drawer of the cupboard that is left\n", "stack"]
"""Of several lengths, one beyond what is read, and one that has the end of line already."""
NUM_TENSORS, NUM_TRAINED = 124, 47
MODES = ("exact", "fast")
WRITERS = ("manyhands", "LeRobot")


class Tolerances(NamedTuple):
    """How far both sides may be apart."""

    loss: float
    gradients: float
    acting: float


EXACT = Tolerances(loss=1e-6, gradients=5e-6, acting=1e-5)
EXACT_BF16 = Tolerances(loss=1e-6, gradients=2e-2, acting=1e-5)
"""A gradient is added up in bf16, but in another order: a few roundings, each of up to 4e-3."""
FAST = Tolerances(loss=5e-6, gradients=1e-5, acting=1e-5)
FAST_BF16 = Tolerances(loss=1e-2, gradients=5e-2, acting=1e-2)
"""LeRobot rounds every result to bf16; the fast mode keeps what it trains in full precision."""
TOLERANCES = {
    ("exact", "float32"): EXACT,
    ("exact", "bfloat16"): EXACT_BF16,
    ("fast", "float32"): FAST,
    ("fast", "bfloat16"): FAST_BF16,
}

CASES: dict[str, tuple[str, Document]] = {
    "SmolVLA, two cameras": ("float32", smolvla(2)),
    "SmolVLA, bf16 words": ("bfloat16", smolvla(2)),
    "SmolVLA, self-attention, marked images, an empty camera": (
        "float32",
        smolvla(
            1,
            attention_mode="self_attn",
            add_image_special_tokens=True,
            empty_cameras=1,
            pad_language_to="max_length",
            prefix_length=80,
        ),
    ),
    "SmolVLA, words trained too": ("float32", smolvla(1, train_expert_only=False)),
}


def case_of(name: str, vlms: dict[str, Path]) -> Document:
    """A case with the place of its vision-language model."""
    text, case = CASES[name]
    return case | {"vlm_model_name": str(vlms[text])}


def save(case: Document, writer: str, mode: str, folder: Path, lerobot: LeRobot) -> None:
    """Let either side make a policy and save it."""
    if writer == "manyhands":
        save_ours(case | {"exact": mode == "exact"}, folder)
    else:
        save_theirs(case, folder, lerobot)


def load(folder: Path, mode: str) -> Policy:
    """A policy as `load_policy` loads it, in either mode."""
    config = replace(read_config(folder).without_downloads(), exact=mode == "exact")
    policy = assemble_policy(config, read_processors(folder))
    prepare_adapters(policy, folder)
    load_weights(policy.network, folder)
    return policy.eval()


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_a_saved_policy_means_the_same_to_both(
    name, mode, writer, vlms, lerobot, compared, tmp_path
):
    case, label = case_of(name, vlms), f"{name}, {mode}, by {writer}"
    batch = make_batch(case) | {"task": TASKS}
    save_batch(batch, tmp_path / "batch")
    save(case, writer, mode, tmp_path / "policy", lerobot)

    out = tmp_path / "theirs"
    places = {"folder": tmp_path / "policy", "batch": tmp_path / "batch", "out": out}
    found = lerobot("evaluate_smolvla", **places, seed=SEED, ticks=NUM_TICKS)
    theirs = load_file(out)
    policy = load(tmp_path / "policy", mode)
    ours = our_results(policy, batch) | {"actions": our_actions(policy, batch)}

    state = policy.network.state_dict()
    assert len(state) == NUM_TENSORS
    if policy.config.train_expert_only:
        assert len(starting(theirs, "gradient/")) == NUM_TRAINED
    compared.same(f"{label}: missing, unexpected", [], found["missing"] + found["unexpected"])
    compared.same(f"{label}: tensor names", sorted(state), sorted(found["types"]))
    if mode == "exact":
        types = {key: str(each.dtype) for key, each in state.items()}
        compared.same(f"{label}: tensor types", types, found["types"])
    tolerances = TOLERANCES[mode, CASES[name][0]]
    compare(compared, label, (ours, theirs), tolerances)
    acts = (ours["actions"], theirs["actions"], tolerances.acting)
    compared(f"{label}: actions of {NUM_TICKS} ticks", *acts)
    assert compared.faults() == []


def compare(compared: Comparison, label: str, pair: Any, tolerances: Tolerances) -> None:
    """Compare what both sides computed."""
    pair = [tokens_apart(each) for each in pair]
    for what, prefix, tolerance in (
        ("tokens", "tokens", 0.0),
        ("normalized batch", "batch/", EXACT.loss),
        ("loss in training", "training/loss", tolerances.loss),
        ("loss in evaluation", "evaluation/loss", tolerances.loss),
        ("gradients", "gradient/", tolerances.gradients),
        ("predicted chunk", "chunk", tolerances.acting),
    ):
        ours, theirs = (starting(each, prefix) for each in pair)
        # What LeRobot trains in bf16 has full precision in the fast mode.
        same_types = {key: each.to(ours[key].dtype) for key, each in theirs.items()}
        compared(f"{label}: {what}", ours, same_types, tolerance)


def tokens_apart(results: dict[str, Tensor]) -> dict[str, Tensor]:
    """Results in which tokens, whose numbers are large, do not count as part of the batch."""
    return {key.replace("batch/observation.language", "tokens"): results[key] for key in results}


@plain_kernels()
def our_results(policy: Policy, batch: Batch) -> dict[str, Tensor]:
    """What we compute from a raw batch, under LeRobot's names."""
    prepared = policy.prepare(batch).items()
    results = {f"batch/{key}": each for key, each in prepared if isinstance(each, Tensor)}
    torch.manual_seed(SEED)
    results["chunk"] = policy.predict_action_chunk(observed(batch))
    with torch.no_grad():
        torch.manual_seed(SEED)
        results["evaluation/loss"], _ = policy.eval().training_loss(batch)
    torch.manual_seed(SEED)
    loss, _ = policy.train().training_loss(batch)
    loss.backward()
    learned = ((name, each.grad) for name, each in policy.network.named_parameters())
    gradients = {f"gradient/{name}": each for name, each in learned if each is not None}
    return results | gradients | {"training/loss": loss.detach()}


@plain_kernels()
def our_actions(policy: Policy, batch: Batch) -> Tensor:
    """What we do at successive ticks, seeing something else at each."""
    torch.manual_seed(SEED)
    ticks = [rolled(observed(batch), number) for number in range(NUM_TICKS)]
    return torch.stack([policy.select_action(tick) for tick in ticks])


def observed(batch: Batch) -> Batch:
    """What a robot sees and is told."""
    return {key: each for key, each in batch.items() if not key.startswith("action")}


@pytest.mark.parametrize("name", CASES)
def test_a_policy_of_lerobot_is_saved_again_as_it_was(name, vlms, lerobot, compared, tmp_path):
    save_theirs(case_of(name, vlms), tmp_path / "policy", lerobot)
    load(tmp_path / "policy", "exact").save(tmp_path / "again")
    folders = (tmp_path / "again", tmp_path / "policy")
    compared.same(f"{name}, saved again: JSON files", *map(documents_in, folders))
    compared(f"{name}, saved again: all tensors", *map(tensors_in, folders))
    assert compared.faults() == []


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of ours with the features of the cases."""
    root = tmp_path_factory.mktemp("adapters") / "dataset"
    record_ours(root, "video")
    return root


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["SmolVLA, two cameras", "SmolVLA, bf16 words"])
def test_adapters_mean_the_same_to_both(
    name, mode, writer, vlms, lerobot, dataset, compared, tmp_path
):
    base, folder = tmp_path / "base", tmp_path / "adapters"
    batch = make_batch(case_of(name, vlms)) | {"task": TASKS}
    save_batch(batch, tmp_path / "batch")
    save(case_of(name, vlms), writer, mode, base, lerobot)
    if writer == "manyhands":
        save_adapters(base, folder, mode)
    else:
        lerobot("create_adapters", base=base, root=dataset, folder=folder, seed=9)

    places = {"folder": folder, "root": dataset, "batch": tmp_path / "batch"}
    found = lerobot("evaluate_adapters", **places, seed=SEED, out=tmp_path / "out")
    policy = load(folder, mode)
    ours, theirs = our_results(policy, batch), load_file(tmp_path / "out")
    label = f"{name}, adapters, {mode}, by {writer}"
    prefix = "base_model.model."
    names = [name for name, each in policy.network.named_parameters() if each.requires_grad]
    compared.same(f"{label}: trained", [prefix + each for each in names], found["trained"])
    bare = {key.replace(f"gradient/{prefix}", "gradient/"): each for key, each in theirs.items()}
    compare(compared, label, (ours, bare), TOLERANCES[mode, CASES[name][0]])
    assert compared.faults() == []


def save_adapters(base: Path, folder: Path, mode: str) -> None:
    """Put adapters into a policy, scramble them and save them."""
    policy = load(base, mode)
    config = replace(policy.config, pretrained_path=base)
    adapt(policy, new_settings(PeftConfig(r=4, lora_alpha=16), config))
    state = policy.network.state_dict()
    fresh = {name: each for name, each in state.items() if file_name(name) is not None}
    policy.network.load_state_dict(scrambled(fresh, seed=9), strict=False)
    policy.save(folder)
