"""Adapters to train instead of a policy's own weights, as the user asked for them."""

from collections.abc import Iterator
from dataclasses import dataclass

from manyhands.config.policy import PolicyConfig

METHOD = "LORA"
INIT_TYPES = ("gaussian", "orthogonal")
"""First weights of adapters that leave those of the policy as they are."""


@dataclass(frozen=True, kw_only=True)
class PeftConfig:
    """Adapters of low rank (LoRA), trained by peft instead of the weights of --policy.path."""

    method_type: str = METHOD
    """Kind of adapters; only LORA."""
    r: int = 16
    """Rank of adapters."""
    lora_alpha: int | None = None
    """Weight of adapters times their rank; null takes peft's 8."""
    target_modules: list[str] | str | None = None
    """Layers to adapt, by endings of their names or one pattern; null takes the policy's own."""
    full_training_modules: list[str] | None = None
    """Modules to train whole beside the adapters, by endings of their names."""
    init_type: str | None = None
    """How adapters start: gaussian or orthogonal; null takes peft's usual way."""

    def faults(self, policy: PolicyConfig | None) -> Iterator[str]:
        """Yield every reason why a policy cannot have these adapters."""
        if self.method_type != METHOD:
            yield f"--peft.method_type={self.method_type} does not exist here; use {METHOD}"
        for name in ("r", "lora_alpha"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"--peft.{name}={value} must be at least 1"
        if self.init_type not in (None, *INIT_TYPES):
            yield (
                f"--peft.init_type={self.init_type} is not one of {', '.join(INIT_TYPES)}; others "
                "change weights beside the adapters, which are not saved"
            )
        if policy is not None:
            yield from self._faults_with(policy)

    def _faults_with(self, policy: PolicyConfig) -> Iterator[str]:
        if policy.pretrained_path is None:
            yield "--peft adapts weights that are there: give --policy.path=FOLDER or a Hub name"
        elif policy.use_peft:
            yield (
                f"--policy.path={policy.pretrained_path} has adapters already: leave out --peft to "
                "train those further, or merge them first with manyhands convert --checkpoint="
                f"{policy.pretrained_path} --output=FOLDER"
            )
        if not (self.target_modules or policy.adapter_targets):
            yield (
                f"--peft needs --peft.target_modules, the layers to adapt: a policy of type "
                f"{policy.type} has no usual ones"
            )
