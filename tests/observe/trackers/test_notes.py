"""Notes of trackers in the run directory."""

from manyhands.observe.trackers.notes import notes_file, read_notes, write_notes


def test_notes_are_read_back_and_there_are_none_at_first(tmp_path):
    assert read_notes(tmp_path, "wandb") == {}
    write_notes(tmp_path, "wandb", {"id": "abc"})
    assert read_notes(tmp_path, "wandb") == {"id": "abc"}
    assert read_notes(tmp_path, "trackio") == {}


def test_a_damaged_file_has_no_notes(tmp_path):
    write_notes(tmp_path, "wandb", {"id": "abc"})
    notes_file(tmp_path, "wandb").write_text("{")
    assert read_notes(tmp_path, "wandb") == {}
