"""The catalog has every command."""

from manyhands.cli.catalog import all_commands
from manyhands.cli.main import COMMANDS


def test_every_command_is_listed_once():
    names = [each.name for each in all_commands()]
    assert len(set(names)) == len(names)
    assert {name.split()[0] for name in names} == set(COMMANDS)


def test_a_command_that_takes_training_flags_has_them():
    commands = {each.name: {flag.name for flag in each.flags()} for each in all_commands()}
    assert "policy.type" in commands["plan"] and "gpu_memory" in commands["plan"]
    assert "policy.type" not in commands["doctor"]
