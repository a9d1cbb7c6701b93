"""Paths that were nearly spelled right."""

from pathlib import Path

from manyhands.config.paths.similar import similar_path


def test_a_path_of_nearly_the_same_name_is_proposed(tmp_path):
    (tmp_path / "pick").mkdir()
    assert similar_path(tmp_path / "pikc") == f"; did you mean {tmp_path / 'pick'}?"


def test_nothing_is_proposed_for_what_exists_or_resembles_nothing(tmp_path):
    (tmp_path / "pick").mkdir()
    for path in (tmp_path / "pick", tmp_path / "place", tmp_path / "none" / "pick", Path("a\0b")):
        assert similar_path(path) == ""
