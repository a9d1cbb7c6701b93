"""The flags of `manyhands watch`."""

import pytest

from manyhands.config.commands.watch import WatchConfig


def test_defaults_are_valid_and_stay_on_this_machine():
    assert WatchConfig().faults() == []
    assert (WatchConfig().host, WatchConfig().port) == ("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (WatchConfig(port=-1), "--port=-1 must be at least 0"),
        (WatchConfig(port=65_536), "--port=65536 must be at most 65535"),
        (WatchConfig(frames=-2), "--frames=-2 must be at least 0"),
    ],
)
def test_invalid_values_are_named(config, message):
    (fault,) = config.faults()
    assert message in fault
