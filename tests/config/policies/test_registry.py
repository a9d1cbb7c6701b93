"""Policies by type, and what is said of those that cannot be had."""

from dataclasses import dataclass
from typing import ClassVar

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.registry import (
    POLICY_TYPES,
    plugin_fault,
    policy_title,
    unknown_type,
)


def test_every_policy_is_found_by_its_type():
    assert {"act": ActConfig, "diffusion": DiffusionConfig}.items() <= POLICY_TYPES.items()
    assert len(POLICY_TYPES) == len(list(POLICY_TYPES))


def test_people_have_names_for_policies():
    assert [policy_title(kind) for kind in ("act", "diffusion", "smolvla")] == [
        "ACT",
        "Diffusion Policy",
        "SmolVLA",
    ]
    assert policy_title("theirs") == "theirs"


def test_an_unknown_type_is_answered_with_the_nearest():
    assert unknown_type("difusion").startswith("difusion is unknown; choose from ")
    assert unknown_type("difusion").endswith("did you mean diffusion?")


def test_only_a_configuration_under_its_own_name_is_taken():
    @dataclass(frozen=True, kw_only=True)
    class Wide(ActConfig):
        type: ClassVar[str] = "wide"

    assert plugin_fault("wide", Wide) is None
    assert "named broad, but its type is wide" in str(plugin_fault("broad", Wide))
    assert "not a dataclass derived from PolicyConfig" in str(plugin_fault("wide", dict))
    assert "not a dataclass derived from PolicyConfig" in str(plugin_fault("wide", Wide()))
