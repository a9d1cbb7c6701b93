"""The flags of `manyhands completion`."""

from manyhands.config.commands.completion import CompletionConfig
from manyhands.config.schema.decoding import flags_of


def test_there_are_none():
    assert [*flags_of(CompletionConfig)] == [] and CompletionConfig().faults() == []
