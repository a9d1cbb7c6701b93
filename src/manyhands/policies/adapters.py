"""Low-rank adapters (LoRA) in a policy's network: only they are trained and saved.

Their layers are peft's and replace the network's own; the network is otherwise unchanged.
"""

import json
from collections.abc import Iterable
from types import ModuleType

import torch
from torch import nn

from manyhands.config.files.config_files import find_policy_folder
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.sections.peft import PeftConfig
from manyhands.errors import ConfigError, UserError
from manyhands.lerobot_format.policy.folder import BASE, NAME, REVISION, Settings, file_name
from manyhands.policies.hub_models import extra_module
from manyhands.policies.policy import Policy

_EXTRA, _ASKER = "smolvla", "a policy with adapters"


def new_settings(config: PeftConfig, policy: PolicyConfig) -> Settings:
    """Adapter settings of a config, on top of the policy it starts from."""
    assert policy.pretrained_path is not None
    # A run's newest checkpoint may be another one tomorrow, and a path mean nothing elsewhere.
    folder = find_policy_folder(policy.pretrained_path)
    base = str(policy.pretrained_path if folder is None else folder.resolve())
    chosen = {"lora_alpha": config.lora_alpha, "init_lora_weights": config.init_type}
    made = _peft().LoraConfig(
        r=config.r,
        target_modules=config.target_modules or policy.adapter_targets,
        modules_to_save=config.full_training_modules,
        **{BASE: base, REVISION: policy.pretrained_revision},
        **{name: value for name, value in chosen.items() if value is not None},
    )
    settings: Settings = json.loads(json.dumps(made.to_dict(), default=sorted))
    return settings


def adapt(policy: Policy, settings: Settings) -> None:
    """Add new adapters to a policy's network and freeze everything else."""
    peft, network = _peft(), policy.network
    requested = {
        "target_modules": settings.get("target_modules"),
        "full_training_modules": settings.get("modules_to_save"),
    }
    for flag, names in requested.items():
        _refuse_unknown(network, flag, names)
    try:
        config = peft.PeftConfig.from_peft_type(**settings | {"inference_mode": False})
        peft.inject_adapter_in_model(config, network, adapter_name=NAME)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"adapters with target_modules={requested['target_modules']} do not match the policy; "
            f"its layers are {', '.join(_layer_names(network))}: {error}"
        ) from None
    for name, weight in network.named_parameters():
        if file_name(name) is not None:
            weight.data = weight.data.to(torch.promote_types(weight.dtype, torch.float32))
    policy.adapters = settings


def merge(policy: Policy) -> None:
    """Merge adapters into the base weights and remove them."""
    layers = extra_module("peft.tuners.tuners_utils", _EXTRA, _ASKER)
    network = policy.network
    for name, module in [*network.named_modules()]:
        if isinstance(module, layers.BaseTunerLayer):
            module.merge()
            network.set_submodule(name, module.get_base_layer())
        elif isinstance(module, _peft().utils.ModulesToSaveWrapper):
            network.set_submodule(name, module.modules_to_save[NAME])
    policy.adapters = None


def reject_batch_statistics(network: nn.Module) -> None:
    """Reject layers whose buffers training changes but adapters do not save."""
    kept = (name for name in network.state_dict() if name.endswith("num_batches_tracked"))
    first = next(kept, None)
    if first is not None:
        raise ConfigError(
            "--peft: adapters do not save the running statistics of batch norms such as "
            f"{first.rpartition('.')[0]}. Train without --peft, or start from a policy "
            "without batch norms"
        )


def _peft() -> ModuleType:
    return extra_module("peft", _EXTRA, _ASKER)


def _refuse_unknown(network: nn.Module, flag: str, names: str | Iterable[str] | None) -> None:
    """Reject name endings that match no module; peft would skip them."""
    known = [f".{name}" for name, _ in network.named_modules()]
    wanted = [] if names is None or isinstance(names, str) else names
    unknown = [each for each in wanted if not any(name.endswith(f".{each}") for name in known)]
    if unknown:
        raise UserError(
            f"--peft.{flag}: the policy has no layer {', '.join(unknown)}; its layers are "
            f"{', '.join(_layer_names(network))}"
        )


def _layer_names(network: nn.Module) -> list[str]:
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Embedding)
    named = network.named_modules()
    return sorted({name.rpartition(".")[2] for name, each in named if isinstance(each, kinds)})
