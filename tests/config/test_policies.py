"""Policies by type."""

from manyhands.config.act import ActConfig
from manyhands.config.diffusion import DiffusionConfig
from manyhands.config.policies import POLICY_TYPES


def test_every_policy_is_found_by_its_type():
    assert {"act": ActConfig, "diffusion": DiffusionConfig} == POLICY_TYPES
