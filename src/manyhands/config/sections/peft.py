"""Adapter settings: adapters are trained instead of a policy's own weights."""

from collections.abc import Iterator
from dataclasses import dataclass

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.schema.rules import at_least

METHOD = "LORA"
INIT_TYPES = ("gaussian", "orthogonal")
"""First weights of adapters that leave those of the policy as they are."""


@dataclass(frozen=True, kw_only=True)
class PeftConfig:
    """LoRA adapters, trained by peft instead of the weights of --policy.path."""

    method_type: str = METHOD
    """Adapter type; only LORA."""
    r: int = 16
    """Rank of the adapters (LoRA r)."""
    lora_alpha: int | None = None
    """LoRA alpha; null: peft's default, 8."""
    target_modules: list[str] | str | None = None
    """Modules to adapt, by name suffix or one regular expression; null: the policy's default."""
    full_training_modules: list[str] | None = None
    """Modules to train fully beside the adapters, by name suffix."""
    init_type: str | None = None
    """Initialization of adapters: gaussian or orthogonal; null: peft's default."""

    def faults(self, policy: PolicyConfig | None) -> Iterator[str]:
        """Yield every reason why a policy cannot have these adapters."""
        if self.method_type != METHOD:
            yield (
                f"--peft.method_type={self.method_type} is not supported by manyhands; use {METHOD}"
            )
        yield from at_least(self, "peft.", 1, "r", "lora_alpha")
        if self.init_type not in (None, *INIT_TYPES):
            yield (
                f"--peft.init_type={self.init_type} is not one of {', '.join(INIT_TYPES)}: other "
                "types change base weights, which are not saved"
            )
        if policy is not None:
            yield from self._faults_with(policy)

    def _faults_with(self, policy: PolicyConfig) -> Iterator[str]:
        if policy.pretrained_path is None:
            yield "--peft needs pretrained weights. Set --policy.path=FOLDER or a Hub name"
        elif policy.use_peft:
            yield (
                f"--policy.path={policy.pretrained_path} already has adapters. Remove --peft to "
                "train them further, or merge them first: manyhands convert "
                f"--checkpoint={policy.pretrained_path} --output=FOLDER"
            )
        if not (self.target_modules or policy.adapter_targets):
            yield (
                f"policies of type {policy.type} have no default modules to adapt. Set "
                "--peft.target_modules"
            )
