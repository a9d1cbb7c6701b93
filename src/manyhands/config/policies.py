"""Policies by type."""

from manyhands.config.act import ActConfig
from manyhands.config.diffusion import DiffusionConfig
from manyhands.config.policy import PolicyConfig

POLICY_TYPES: dict[str, type[PolicyConfig]] = {
    config.type: config for config in (ActConfig, DiffusionConfig)
}
