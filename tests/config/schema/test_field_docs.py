"""Help of fields."""

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.schema.field_docs import help_of


def test_help_of_an_inherited_field_is_found():
    assert help_of(ActConfig, "device") == help_of(PolicyConfig, "device") != ""


def test_a_field_without_a_string_below_it_has_no_help():
    assert help_of(ActConfig, "type") == ""
