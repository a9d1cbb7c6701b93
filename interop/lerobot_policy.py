"""LeRobot's policies: made and saved, or loaded and run."""

from pathlib import Path
from typing import Any

import torch
from both_sides import as_doubles, double_precision, scrambled, tick_of
from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.factory import (
    get_policy_class,
    make_policy_config,
    make_pre_post_processors,
)
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Batch = dict[str, Any]
OBSERVED = "observation."


def create_policy(config: dict[str, Any], stats: str, folder: str, seed: int) -> dict[str, Any]:
    """Make a policy with scrambled weights and save it as LeRobot's training does."""
    settings = make_policy_config(**_typed(config), device="cpu", push_to_hub=False)
    policy = get_policy_class(settings.type)(settings)
    policy.load_state_dict(scrambled(policy.state_dict(), seed))
    pre, post = make_pre_post_processors(settings, dataset_stats=_nested(load_file(stats)))
    policy.save_pretrained(Path(folder))
    pre.save_pretrained(folder)
    post.save_pretrained(folder)
    return {"tensors": len(policy.state_dict())}


def evaluate_policy(folder: str, batch: str, seed: int, ticks: int, out: str) -> dict[str, Any]:
    """Load a policy strictly and compute everything a user gets from it."""
    policy, pre, post = load_policy(folder)
    raw = as_floats(load_file(batch))
    prepared = {key: each for key, each in pre(raw).items() if key in raw}
    observation = {key: each for key, each in raw.items() if key.startswith(OBSERVED)}
    has_time = policy.config.observation_delta_indices is not None
    seen = [tick_of(observation, has_time, number) for number in range(ticks)]
    results = {f"batch/{key}": each for key, each in prepared.items()}
    with torch.no_grad():
        torch.manual_seed(seed)
        results["chunk"] = post(policy.predict_action_chunk(pre(observation)))
        policy.reset()
        torch.manual_seed(seed)
        results["actions"] = torch.stack([post(policy.select_action(pre(tick))) for tick in seen])
        torch.manual_seed(seed)
        results["evaluation/loss"], _ = policy.forward(prepared)
    results |= _losses_and_gradients(policy, prepared, seed)
    save_file({key: each.detach().contiguous() for key, each in results.items()}, out)
    own, file = set(policy.state_dict()), set(load_file(Path(folder, "model.safetensors")))
    return {"names": sorted(own), "missing": list(own - file), "unexpected": list(file - own)}


def load_policy(folder: str) -> tuple[Any, Any, Any]:
    """A policy and its two processors, all from files; a tensor too few or too many is an error."""
    settings = PreTrainedConfig.from_pretrained(folder)
    policy = get_policy_class(settings.type).from_pretrained(folder, config=settings, strict=True)
    pre, post = make_pre_post_processors(settings, pretrained_path=folder)
    return policy, pre, post


def as_floats(batch: Batch) -> Batch:
    """A batch whose images are floats from 0 to 1, which LeRobot's training makes of bytes."""
    images = {key for key, value in batch.items() if getattr(value, "dtype", None) is torch.uint8}
    return {key: value.float() / 255 if key in images else value for key, value in batch.items()}


def _losses_and_gradients(policy: Any, batch: Batch, seed: int) -> dict[str, Tensor]:
    policy.train()
    with torch.no_grad():
        torch.manual_seed(seed)
        loss, _ = policy.forward(batch)
    # Without a VAE, ACT makes its latent in single precision whatever its weights have.
    for module in policy.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(lambda module, inputs: inputs[0].to(module.weight))
    with double_precision(policy):
        torch.manual_seed(seed)
        exact, _ = policy.forward(as_doubles(batch))
        exact.backward()
    gradients = {name: each.grad for name, each in policy.named_parameters()}
    numbers = {"training/loss": loss, "exact/loss": exact}
    return numbers | {f"gradient/{name}": each.float() for name, each in gradients.items()}


def _typed(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration's JSON form as LeRobot's own types."""
    features = {
        key: {
            name: PolicyFeature(type=FeatureType(each["type"]), shape=tuple(each["shape"]))
            for name, each in config[key].items()
        }
        for key in ("input_features", "output_features")
    }
    modes = {
        kind: NormalizationMode(mode) for kind, mode in config["normalization_mapping"].items()
    }
    plain = {key: tuple(each) if isinstance(each, list) else each for key, each in config.items()}
    kind = {"policy_type": plain.pop("type")}
    return kind | plain | features | {"normalization_mapping": modes}


def _nested(stats: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    nested: dict[str, dict[str, Tensor]] = {}
    for key, value in stats.items():
        feature, _, name = key.rpartition(".")
        nested.setdefault(feature, {})[name] = value
    return nested
