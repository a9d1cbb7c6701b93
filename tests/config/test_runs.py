"""Flags of the commands about runs that exist."""

from pathlib import Path

from manyhands.config.runs import PushConfig, StatusConfig


def test_results_need_a_folder_that_exists(tmp_path):
    assert StatusConfig(json=tmp_path / "status.json").faults() == []
    (fault,) = StatusConfig(json=Path("/nowhere/at/all/status.json")).faults()
    assert (
        fault
        == "--json=/nowhere/at/all/status.json: folder /nowhere/at/all does not exist. "
        + ("Create it: mkdir -p /nowhere/at/all")
    )


def test_a_push_leaves_everything_to_the_run_and_the_account_by_default():
    push = PushConfig()
    assert (push.private, push.license, push.tags, push.faults()) == (None, None, None, [])
