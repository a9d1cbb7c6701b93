"""Where checkpoints are, and which of them a run goes on from."""

import os
from pathlib import Path

import pytest

from manyhands.config.runs.run_dir import (
    checkpoint_damage,
    checkpoint_dir,
    damaged_newer,
    find_checkpoint,
    list_checkpoints,
    newest_intact,
)
from manyhands.errors import CheckpointError
from manyhands.manifest import MANIFEST, describe_folder, manifest_text


def saved(run_dir: Path, step: int, saved_at: float | None = None) -> Path:
    """A checkpoint; without a time it is one of LeRobot's, which has no manifest."""
    folder = checkpoint_dir(run_dir, step, 100)
    for part in ("pretrained_model", "training_state"):
        (folder / part).mkdir(parents=True)
        (folder / part / "file").write_text(str(step))
    if saved_at is not None:
        (folder / "training_state/manyhands.json").write_text("{}")
        text = manifest_text({"saved_at": saved_at}, describe_folder(folder))
        (folder / MANIFEST).write_text(text)
    return folder


def test_names_sort_by_step():
    assert checkpoint_dir(Path("r"), 20, 100).name == "000020"
    assert checkpoint_dir(Path("r"), 20, 20_000_000).name == "00000020"


def test_a_run_a_checkpoint_and_its_parts_all_stand_for_the_checkpoint(tmp_path):
    folder = saved(tmp_path, 20)
    (tmp_path / "checkpoints/last").symlink_to("000020")
    inside = (folder, folder / "pretrained_model", tmp_path / "checkpoints/last")
    for path in (tmp_path, tmp_path / "checkpoints", *inside):
        assert find_checkpoint(path) == folder


def test_a_folder_without_one_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        find_checkpoint(tmp_path)
    assert newest_intact(tmp_path) is None


def test_the_newest_is_the_one_saved_last(tmp_path):
    saved(tmp_path, 40, saved_at=1.0)
    back = saved(tmp_path, 20, saved_at=2.0)
    assert newest_intact(tmp_path) == back
    assert [each.name for each in list_checkpoints(tmp_path)] == ["000020", "000040"]


def test_lerobots_checkpoints_are_told_apart_by_the_time_of_their_folder(tmp_path):
    for step, when in ((20, 200), (40, 100)):
        os.utime(saved(tmp_path, step), (when, when))
    assert newest_intact(tmp_path) == tmp_path / "checkpoints/000020"


def test_a_damaged_one_is_passed_over_and_named(tmp_path):
    older, newer = saved(tmp_path, 20, 1.0), saved(tmp_path, 40, 2.0)
    (newer / "pretrained_model/file").write_text("41")
    assert find_checkpoint(tmp_path) == older
    (told,) = damaged_newer(older)
    assert str(newer / "pretrained_model/file") in told
    assert damaged_newer(newer) == []
    with pytest.raises(CheckpointError, match=r"^--resume=.* Name the run directory"):
        find_checkpoint(newer)


def test_ours_without_a_manifest_is_damaged_and_lerobots_is_not(tmp_path):
    ours, theirs = saved(tmp_path / "a", 20, 1.0), saved(tmp_path / "b", 20)
    (ours / MANIFEST).unlink()
    assert MANIFEST in str(checkpoint_damage(ours))
    assert checkpoint_damage(theirs) is None


def test_a_run_of_damaged_checkpoints_does_not_begin_anew(tmp_path):
    for step in (20, 40):
        (saved(tmp_path, step, float(step)) / "pretrained_model/file").unlink()
    with pytest.raises(CheckpointError, match="every checkpoint") as refusal:
        newest_intact(tmp_path)
    assert "000020" in str(refusal.value)
    assert "000040" in str(refusal.value)


def test_what_a_crash_left_is_no_checkpoint(tmp_path):
    (tmp_path / "checkpoints/.000040.partial/training_state").mkdir(parents=True)
    assert list_checkpoints(tmp_path) == []


@pytest.mark.parametrize(
    ("left", "fault"), [([], "is empty"), (["pretrained_model"], "lacks training_state")]
)
def test_an_emptied_checkpoint_is_skipped_by_name(tmp_path, left, fault):
    older, emptied = saved(tmp_path, 20, 1.0), checkpoint_dir(tmp_path, 40, 100)
    emptied.mkdir()
    for name in left:
        (emptied / name).mkdir()
    assert find_checkpoint(tmp_path) == older
    assert damaged_newer(older) == [f"{emptied} {fault}"]
    with pytest.raises(CheckpointError, match=f"000040 {fault}"):
        find_checkpoint(emptied)


def test_a_run_whose_only_checkpoint_is_empty_does_not_begin_anew(tmp_path):
    checkpoint_dir(tmp_path, 40, 100).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"000040 is empty\nRemove them to start from step 0"):
        newest_intact(tmp_path)
