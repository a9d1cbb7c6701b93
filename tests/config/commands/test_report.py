"""The flags of `manyhands report`."""

from pathlib import Path

import pytest

from manyhands.config.commands.report import ReportConfig


def test_defaults_are_valid():
    assert ReportConfig().faults() == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ReportConfig(frames=-1), "--frames=-1 must be at least 0"),
        (ReportConfig(output=Path("/none/x.html")), "folder /none does not exist"),
        (ReportConfig(output=Path("/")), "--output=/ is a folder. Name a file in it"),
    ],
)
def test_invalid_values_are_named(config, message):
    (fault,) = config.faults()
    assert message in fault
