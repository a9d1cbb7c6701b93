"""LeRobot's SmolVLA: what it needs beside its weights, what it computes, and adapters for it."""

from pathlib import Path
from typing import Any

import torch
from both_sides import load_batch, plain_kernels, rolled, scrambled
from lerobot.configs.policies import PreTrainedConfig
from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
from lerobot.policies.factory import make_policy, make_pre_post_processors
from lerobot_data import NAME
from lerobot_policy import Batch, as_floats, load_policy
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    PreTrainedTokenizerFast,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

SPECIAL_TOKENS = {
    "unk_token": "<|endoftext|>",
    "bos_token": "<|im_start|>",
    "pad_token": "<|im_end|>",
    "eos_token": "<end_of_utterance>",
}
IMAGE_TOKENS = {
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    "image_token": "<image>",
    "end_of_utterance_token": "<end_of_utterance>",
}


Loaded = tuple[Any, Any, Any]
"""A policy and its two processors."""


def complete_vlm(folder: str) -> dict[str, Any]:
    """Write what else LeRobot reads from a model's folder that has a tokenizer: a processor."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(Path(folder, "tokenizer.json")),
        truncation_side="left",
        extra_special_tokens=IMAGE_TOKENS,
        **SPECIAL_TOKENS,
    )
    images, videos = SmolVLMImageProcessor(), SmolVLMVideoProcessor()
    SmolVLMProcessor(images, tokenizer, videos, image_seq_len=4).save_pretrained(folder)
    return {"words": len(tokenizer)}


@plain_kernels()
def evaluate_smolvla(folder: str, batch: str, seed: int, ticks: int, out: str) -> dict[str, Any]:
    """Load a policy strictly and compute everything a user gets from it."""
    loaded, raw = load_policy(folder), _read(batch)
    policy, pre, post = loaded
    own, file = policy.state_dict(), load_file(Path(folder, "model.safetensors"))
    results = _results(loaded, raw, seed)
    policy.reset()
    torch.manual_seed(seed)
    seen = [rolled(_observation(raw), number) for number in range(ticks)]
    results["actions"] = torch.stack([post(policy.select_action(pre(tick))) for tick in seen])
    save_file({key: each.contiguous() for key, each in results.items()}, out)
    return {
        "types": {name: str(each.dtype) for name, each in own.items()},
        "missing": sorted(own.keys() - file.keys()),
        "unexpected": sorted(file.keys() - own.keys()),
    }


def create_adapters(base: str, root: str, folder: str, seed: int) -> dict[str, Any]:
    """Put adapters into a policy, scramble them, and save them as LeRobot's training does."""
    policy, pre, post = _made(base, root)
    policy = policy.wrap_with_peft(peft_cli_overrides={"r": 4, "lora_alpha": 16})
    fresh = {name: each for name, each in policy.named_parameters() if each.requires_grad}
    policy.load_state_dict(scrambled(fresh, seed), strict=False)
    for part in (policy, policy.config, pre, post):
        part.save_pretrained(folder)
    return {"tensors": len(fresh)}


@plain_kernels()
def evaluate_adapters(folder: str, root: str, batch: str, seed: int, out: str) -> dict[str, Any]:
    """Load adapters and the policy below them, and compute what can be learned and done."""
    loaded = _made(folder, root)
    results = _results(loaded, _read(batch), seed)
    save_file({key: each.contiguous() for key, each in results.items()}, out)
    policy, _, _ = loaded
    trained = [name for name, each in policy.named_parameters() if each.requires_grad]
    return {"trained": trained}


def _made(folder: str, root: str) -> Loaded:
    """What LeRobot's training makes of a folder: the policy, on top of another where it says so."""
    settings = PreTrainedConfig.from_pretrained(folder)
    settings.pretrained_path = Path(folder)
    policy = make_policy(settings, ds_meta=LeRobotDatasetMetadata(NAME, root=root))
    return policy, *make_pre_post_processors(settings, pretrained_path=folder)


def _results(loaded: Loaded, batch: Batch, seed: int) -> dict[str, Tensor]:
    policy, pre, post = loaded
    prepared = {key: each for key, each in pre(batch).items() if isinstance(each, Tensor)}
    results = {f"batch/{key}": each for key, each in prepared.items()}
    torch.manual_seed(seed)
    results["chunk"] = post(policy.predict_action_chunk(pre(_observation(batch))))
    with torch.no_grad():
        torch.manual_seed(seed)
        results["evaluation/loss"], _ = policy.forward(prepared)
    policy.train()
    torch.manual_seed(seed)
    loss, _ = policy.forward(prepared)
    loss.backward()
    learned = ((name, each.grad) for name, each in policy.named_parameters())
    gradients = {f"gradient/{name}": each for name, each in learned if each is not None}
    return results | gradients | {"training/loss": loss.detach()}


def _read(file: str) -> Batch:
    return as_floats(load_batch(file))


def _observation(batch: Batch) -> Batch:
    return {key: each for key, each in batch.items() if key.startswith(("observation.", "task"))}
