"""What metadata says of itself."""

import pyarrow as pa
import pytest

from manyhands.data.checking.check import check_metadata

INFO = "meta/info.json"


@pytest.mark.parametrize("key", ["index", "timestamp"])
def test_a_reserved_feature_is_missed(tiny_root, check, change_json, key):
    change_json(tiny_root / INFO, lambda info: info["features"].pop(key))
    result = check(tiny_root)
    found = result.of_check("metadata")
    assert [each.severity for each in found] == ["warning"]
    assert f"features does not declare {key}" in found[0].message
    assert result.is_usable


def test_episodes_that_are_counted_and_not_listed_are_lost(tiny_root, check, change_json):
    change_json(tiny_root / INFO, lambda info: info.update(total_episodes=8))
    result = check(tiny_root)
    (found,) = result.of_check("episodes")
    assert (found.severity, found.frames) == ("bad", (6, 6))
    assert (result.num_lost_episodes, result.num_lost_frames) == (6, 18)


def test_tasks_without_a_text_or_twice_are_worth_a_warning(tiny_root, source_of, rewrite):
    path = tiny_root / "meta/tasks.parquet"
    rewrite(path, "task", lambda texts: pa.array([" ", " "]))
    found = [*check_metadata(source_of(tiny_root))]
    assert [each.message for each in found] == [
        "task 0 is empty",
        "task 1 is empty",
    ]
    rewrite(path, "task", lambda texts: pa.array(["push", "push"]))
    (found,) = check_metadata(source_of(tiny_root))
    assert found.message == "task 1 duplicates task 0"


def test_an_episode_without_frames_is_worth_a_warning(tiny_root, check, rewrite):
    table = tiny_root / "meta/episodes/chunk-000/file-000.parquet"
    rewrite(table, "dataset_to_index", lambda _: [6, 6])
    rewrite(table, "dataset_from_index", lambda _: [0, 6])
    rewrite(table, "length", lambda _: [6, 0])
    found = check(tiny_root).of_check("episodes")
    assert [(each.episode, each.severity, each.frames) for each in found] == [
        (1, "warning", (6, 6))
    ]
