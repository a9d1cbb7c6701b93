"""Vectors from columns, cameras from columns or folders, the rate from timestamps."""

import pytest

from manyhands.data.importing.image_folder import CsvEpisodes
from manyhands.errors import DatasetError


def test_vectors_cameras_and_texts_are_recognized(written):
    source = CsvEpisodes(written("csv"))
    assert {name: str(column) for name, column in source.columns.items()} == {
        "state": "5 float32",
        "action": "2 float32",
        "front": "16x24x3 uint8",
        "task": "text",
    }
    assert (source.num_episodes, source.fps) == (3, 10)


def test_folders_beside_a_table_are_cameras(written):
    source = CsvEpisodes(written("csv, folders"))
    assert source.columns["front"].is_image
    assert source.fps is None


def test_a_camera_needs_an_image_for_every_row(write, episodes):
    path = write("csv, folders", episodes)
    (path / "episode_1/front/2.png").unlink()
    with pytest.raises(DatasetError, match=r"front has 2 images, but .*data.csv has 3 rows"):
        [*CsvEpisodes(path).frames(1, ["front"])]


def test_a_text_among_numbers_is_named_with_its_line(tmp_path):
    (tmp_path / "a.csv").write_text("action_0,action_1\n1,2\n3,x\n")
    with pytest.raises(DatasetError, match=r"a.csv, line 3, action: could not convert"):
        [*CsvEpisodes(tmp_path).frames(0, ["action"])]


def test_ten_entries_keep_their_order(tmp_path):
    header = ",".join(f"action_{place}" for place in reversed(range(11)))
    values = ",".join(str(place) for place in reversed(range(11)))
    (tmp_path / "a.csv").write_text(f"{header}\n{values}\n")
    (frame,) = CsvEpisodes(tmp_path).frames(0, ["action"])
    assert frame["action"].tolist() == list(range(11))
