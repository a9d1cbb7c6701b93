"""The meta folder as a whole."""

import json
import re
import shutil

import numpy as np
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.meta import read_dataset_meta, read_stats, write_stats


def test_the_metadata_of_lerobots_datasets_is_read(shared):
    meta = read_dataset_meta(shared / "data" / "pusht")
    assert (meta.info.fps, len(meta.episodes), meta.info.total_frames) == (10, 206, 25650)
    assert meta.tasks == ["Push the T-shaped block onto the T-shaped target."]
    assert meta.episodes.to_index[-1] == 25650
    assert meta.stats["action"]["mean"].shape == (2,)
    assert meta.stats["observation.image"]["q99"].shape == (3, 1, 1)
    assert meta.stats["next.reward"]["count"].tolist() == [25650]


def test_a_dataset_may_come_without_statistics(shared, tmp_path):
    root = tmp_path / "dataset"
    source = shared / "fixtures" / "datasets" / "images_in_parquet" / "meta"
    shutil.copytree(source, root / "meta", copy_function=shutil.copyfile)
    (root / "meta").chmod(0o755)
    (root / names.STATS_FILE).unlink()
    assert read_dataset_meta(root).stats == {}


def test_statistics_come_back_with_their_shapes(tmp_path):
    stats = {"a": {"mean": np.array([[[0.25]], [[0.5]]]), "count": np.array([3])}}
    write_stats(tmp_path, stats)
    read = read_stats(tmp_path)
    assert read["a"]["mean"].tolist() == stats["a"]["mean"].tolist()
    assert read["a"]["count"].dtype.kind == "i"


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_all_versions_tell_the_same(plant, version):
    meta = read_dataset_meta(plant(version))
    assert meta.info.codebase_version == version
    assert meta.info.fps == 10
    assert meta.episodes.from_index.tolist() == [0, 4, 7]
    assert meta.episodes.lengths.tolist() == [4, 3, 2]
    assert meta.tasks == ["push", "pull\u2028und schieße"]
    assert meta.episodes.tasks == [["push"], meta.tasks, ["push"]]
    assert meta.stats["action"]["mean"] == pytest.approx([(4 * 0.5 + 3 * 1.5 + 2 * 2.5) / 9] * 2)
    assert meta.stats["action"]["count"].tolist() == [9]
    assert meta.stats["observation.images.top"]["std"].shape == (3, 1, 1)
    assert meta.info.features["observation.depth"].depth_unit == "mm"
    assert not meta.info.features["language_events"].is_number


def test_version_2_1_folds_its_lines_together_unless_that_was_done(plant):
    root = plant("v2.1")
    assert read_dataset_meta(root).stats["next.done"]["max"].tolist() == [1]
    assert "q50" not in read_dataset_meta(root).stats["action"]
    write_stats(root, {"action": {"mean": np.zeros(2)}})
    assert read_dataset_meta(root).stats["action"]["mean"].tolist() == [0, 0]
    (root / names.STATS_FILE).unlink()
    (root / names.EPISODE_STATS_LINES_FILE).unlink()
    assert read_dataset_meta(root).stats == {}


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_totals_are_counted_where_they_are_not_told(plant, version):
    root = plant(version)
    info = json.loads((root / names.INFO_FILE).read_text())
    info = {key: value for key, value in info.items() if not key.startswith("total_")}
    (root / names.INFO_FILE).write_text(json.dumps(info))
    counted = read_dataset_meta(root).info
    assert (counted.total_episodes, counted.total_frames, counted.total_tasks) == (3, 9, 2)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("total_episodes", "total_episodes is 4, but 3 episodes are listed"),
        ("total_frames", "total_frames is 10, but the episodes have 9"),
        ("total_tasks", "total_tasks is 3, but 2 tasks are listed"),
    ],
)
def test_totals_that_disagree_are_noted(plant, version, key, fault):
    root = plant(version)
    info = json.loads((root / names.INFO_FILE).read_text())
    (root / names.INFO_FILE).write_text(json.dumps(info | {key: info[key] + 1}))
    meta = read_dataset_meta(root)
    assert [odd.message.startswith(fault) for odd in meta.oddities] == [True]
    assert meta.oddities[0].num_lost_episodes == (key == "total_episodes")
    assert getattr(meta.info, key) == info[key]


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_tasks_of_a_missing_file_are_those_of_the_episodes(plant, version):
    root = plant(version)
    tasks = read_dataset_meta(root).tasks
    (root / (names.TASK_LINES_FILE if version == "v2.1" else names.TASKS_FILE)).unlink()
    meta = read_dataset_meta(root)
    assert {*meta.tasks} == {*tasks}
    assert "is missing; the tasks of the episodes are used" in meta.oddities[0].message


def test_more_tasks_than_counted_do_no_harm(plant):
    root = plant("v3.0")
    info = json.loads((root / names.INFO_FILE).read_text())
    (root / names.INFO_FILE).write_text(json.dumps(info | {"total_tasks": 1}))
    assert len(read_dataset_meta(root).tasks) == 2


def test_statistics_must_fit_the_features(plant):
    root = plant("v3.0")
    write_stats(root, {"action": {"mean": np.zeros(3)}})
    with pytest.raises(
        DatasetError, match=r"stats\.json: mean of action has the unexpected shape \[3\]"
    ):
        read_dataset_meta(root)


def test_statistics_that_a_link_no_longer_leads_to_are_missed(plant):
    root = plant("v3.0")
    (root / names.STATS_FILE).unlink()
    (root / names.STATS_FILE).symlink_to(root / "gone")
    with pytest.raises(DatasetError, match=r"stats\.json is a link to .*gone, which is missing"):
        read_dataset_meta(root)


@pytest.mark.parametrize("document", [{"a": [1]}, {"a": {"mean": "x"}}, {"a": {"mean": [1, [2]]}}])
def test_what_is_no_statistics_is_refused(tmp_path, document):
    path = tmp_path / names.STATS_FILE
    path.parent.mkdir()
    path.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match=re.escape(str(path))):
        read_stats(tmp_path)


def test_a_single_number_has_one_dimension(tmp_path):
    path = tmp_path / names.STATS_FILE
    path.parent.mkdir()
    path.write_text('{"a": {"mean": 2}}')
    assert read_stats(tmp_path)["a"]["mean"].tolist() == [2]
