"""The meta folder as a whole."""

import json
import re
import shutil

import numpy as np
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset import read_dataset_meta, read_stats, write_stats


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
