"""The flags of `manyhands status`."""

from pathlib import Path

from manyhands.config.commands.status import StatusConfig


def test_results_need_a_folder_that_exists(tmp_path):
    assert StatusConfig(json=tmp_path / "status.json").faults() == []
    (fault,) = StatusConfig(json=Path("/nowhere/at/all/status.json")).faults()
    assert (
        fault
        == "--json=/nowhere/at/all/status.json: folder /nowhere/at/all does not exist. "
        + ("Create it: mkdir -p /nowhere/at/all")
    )
