"""Rows by episode, with the lines that hold them."""

import pytest

from manyhands.data.importing.csv_table import csv_episodes
from manyhands.errors import DatasetError

TABLE = 'episode,text\n0,"a\nb"\n0,c\n7,"d, e"\n\ufeff8,f\n'


def test_episodes_are_runs_of_equal_numbers(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("\ufeff" + TABLE.replace("\ufeff8", "8"), encoding="utf-8")
    rows = [[*each.rows()] for each in csv_episodes(file)]
    texts = [[row["text"] for _, row in each] for each in rows]
    assert texts == [["a\nb", "c"], ["d, e"], ["f"]]
    assert [line for each in rows for line, _ in each] == [2, 4, 5, 6]


def test_a_table_without_episode_numbers_is_one_episode(tmp_path):
    (tmp_path / "a.csv").write_text("x\r\n1\r\n2\r\n")
    (episode,) = csv_episodes(tmp_path / "a.csv")
    assert [row for _, row in episode.rows()] == [{"x": "1"}, {"x": "2"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x\n", "has no rows"),
        (b"", "has no rows"),
        (b"x,y\n1,2\n3\n", "line 3: 1 values, but the first line has 2 names"),
        (b"episode\n0\n1\n0\n", "line 4: episode 0 begins again"),
        (b"x\n\xff\n", "cannot be read as CSV"),
        (b'x\n"1\n', "cannot be read as CSV"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        csv_episodes(tmp_path / "a.csv")
