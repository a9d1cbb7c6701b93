"""Rows of data files, damaged in every way that rows can be."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FILE = "data/chunk-000/file-000.parquet"


def only(result, check):
    """The findings of a check, and that no other found anything bad."""
    bad = {finding.check for finding in result.findings if finding.severity == "bad"}
    assert bad <= {check}
    return result.of_check(check)


def test_a_healthy_dataset_has_no_findings(check, plain_root):
    result = check(plain_root)
    assert result.findings == ()
    assert result.is_usable


def test_nan_is_found_with_its_frames(check, tiny_root, rewrite):
    def damage(values):
        values[1] = [float("nan"), 1.0]
        values[4][1] = float("inf")
        return values

    rewrite(tiny_root / FILE, "action", damage)
    first, second = only(check(tiny_root), "numbers")
    assert (first.episode, first.frames, first.key) == (0, (1, 2), "action")
    assert (second.episode, second.frames) == (1, (4, 5))
    assert "action contains NaN or Inf" in first.message
    assert first.file == FILE


def test_features_nobody_asks_for_may_hold_nan(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "action", lambda values: [[np.nan, 0.0]] * len(values))
    assert check(tiny_root, keys=["observation.state"]).is_usable


def test_a_missing_column_is_found(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "action", None)
    found = only(check(tiny_root), "columns")
    assert [(each.episode, each.key) for each in found] == [(0, "action"), (1, "action")]
    assert "no column action" in found[0].message


def test_empty_entries_are_found(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "observation.state", lambda values: [None, *values[1:]])
    found = only(check(tiny_root), "columns")
    assert "null values" in found[0].message


def test_another_shape_is_found(check, tiny_root, rewrite):
    three = pa.array([[1.0, 2.0, 3.0]] * 6)
    rewrite(tiny_root / FILE, "observation.state", lambda _: three)
    assert "does not match float32 [2]" in only(check(tiny_root), "columns")[0].message


def test_a_repeated_picture_column_is_found(check, tiny_root):
    table = pq.read_table(tiny_root / FILE)
    table = table.append_column("observation.image", table["observation.image"])
    pq.write_table(table, tiny_root / FILE)
    assert "several columns observation.image" in only(check(tiny_root), "columns")[0].message


@pytest.mark.parametrize("key", ["frame_index", "episode_index"])
def test_a_wrong_number_makes_its_episode_bad(check, tiny_root, rewrite, key):
    rewrite(tiny_root / FILE, key, lambda values: [*values[:5], 7])
    (found,) = only(check(tiny_root), "numbering")
    assert (found.episode, found.frames, found.key) == (1, (3, 6), None)
    assert f"{key} is 7 instead of {2 if key == 'frame_index' else 1} in frame 2" in found.message


def test_an_index_with_a_gap_makes_the_file_bad(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "index", lambda values: [*values[:5], 7])
    found = only(check(tiny_root), "numbering")
    assert [each.episode for each in found] == [0, 1]
    assert "must count from 0 to 5" in found[0].message


def test_time_must_go_on(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "timestamp", lambda values: [*values[:4], values[3], values[5]])
    (found,) = only(check(tiny_root), "timestamps")
    assert (found.episode, found.severity) == (1, "bad")
    assert "after frame 0" in found.message


def test_time_off_the_frame_rate_is_worth_a_warning(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "timestamp", lambda values: [each + 0.01 for each in values])
    result = check(tiny_root)
    assert result.is_usable
    found = result.of_check("timestamps")
    assert [each.episode for each in found] == [0, 1]
    assert "3 timestamps differ from frame / 10 fps" in found[0].message


def test_rounding_of_late_timestamps_is_no_fault(check, tiny_root, rewrite):
    slightly = np.float32(5e-5)
    rewrite(tiny_root / FILE, "timestamp", lambda values: [each + slightly for each in values])
    assert check(tiny_root).findings == ()


def test_an_unknown_task_is_found(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "task_index", lambda values: [5, *values[1:]])
    (found,) = only(check(tiny_root), "tasks")
    assert (found.episode, found.key) == (0, None)
    assert "refers to task 5, but the dataset has 2 tasks" in found.message


def test_tasks_unlike_the_metadata_are_worth_a_warning(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "task_index", lambda values: [1] * len(values))
    (found,) = check(tiny_root).of_check("tasks")
    assert (found.episode, found.severity) == (0, "warning")


@pytest.mark.parametrize("damage", ["cut", "missing", "folder", "empty"])
def test_a_file_that_cannot_be_read_makes_its_episodes_bad(check, damaged_root, damage):
    path = damaged_root / FILE
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(content[:200] if damage == "cut" else b"")
    (found,) = only(check(damaged_root), "files")
    assert (found.episode, found.frames) == (0, (0, 3))
    assert FILE in found.text


def test_a_file_of_other_length_is_found(check, tiny_root):
    pq.write_table(pq.read_table(tiny_root / FILE).slice(0, 4), tiny_root / FILE)
    assert "has 4 frames, but the metadata declares 6" in (
        only(check(tiny_root), "numbering")[0].message
    )


def test_only_chosen_episodes_are_looked_at(check, tiny_root, rewrite):
    rewrite(tiny_root / FILE, "frame_index", lambda values: [*values[:5], 7])
    assert check(tiny_root, [0]).is_usable
    assert check(tiny_root, [1]).bad_episodes == [1]


def test_texts_of_other_types_in_other_files_make_no_column(check, damaged_root, rewrite):
    rewrite(damaged_root / FILE, "note", lambda values: pa.array([[1]] * len(values)))
    (found,) = only(check(damaged_root), "columns")
    assert found.episode is None
    assert "column types differ" in found.message
