"""Episodes are told apart by any column that can tell them apart."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.repairing.found_files import FoundFile
from manyhands.data.repairing.found_metadata import FoundEpisode, FoundMetadata
from manyhands.data.repairing.found_rows import found_rows
from manyhands.data.repairing.report import RepairReport

LENGTHS = (3, 2, 4)
COLUMNS = {
    "episode_index": np.repeat([5, 6, 7], LENGTHS),
    "frame_index": np.concatenate([np.arange(length) for length in LENGTHS]),
    "timestamp": np.concatenate([np.arange(length) / 10 for length in LENGTHS]),
    "action": np.arange(9.0),
}


def listed(*numbers: int) -> FoundMetadata:
    episodes = {
        number: FoundEpisode(number, length, [], (0, 0))
        for number, length in zip(numbers, LENGTHS, strict=False)
    }
    return FoundMetadata({}, {}, episodes)


def found(tmp_path, columns, meta):
    path = tmp_path / "file-000.parquet"
    pq.write_table(pa.table({name: COLUMNS[name] for name in columns}), path)
    rows = [*found_rows([FoundFile(path, 0, 0)], meta, RepairReport())]
    return [each.number for each in rows], [each.rows.num_rows for each in rows]


@pytest.mark.parametrize(
    ("columns", "meta", "numbers"),
    [
        (COLUMNS, listed(), [5, 6, 7]),
        (["frame_index", "action"], listed(5, 6, 7), [5, 6, 7]),
        (["timestamp", "action"], listed(), [0, 1, 2]),
        (["action"], listed(5, 6, 7), [5, 6, 7]),
    ],
)
def test_episodes_are_told_apart(tmp_path, columns, meta, numbers):
    assert found(tmp_path, columns, meta) == (numbers, [*LENGTHS])


@pytest.mark.parametrize(
    ("change", "lengths"),
    [
        ({"timestamp": [0, 0.1, 0.05, 0, 0.1, 0, 0.1, 0.2, 0.3]}, LENGTHS),
        ({"episode_index": np.zeros(9, int)}, LENGTHS),
        ({"frame_index": np.zeros(9, int)}, LENGTHS),
        ({"frame_index": np.arange(9)}, LENGTHS),
        ({"episode_index": np.zeros(9, int), "frame_index": np.arange(9)}, (2, 3, 4)),
        ({"episode_index": [1, 0] * 4 + [1], "frame_index": [5] * 9}, (2, 3, 4)),
    ],
)
def test_wrong_numbers_do_not_divide_episodes(tmp_path, change, lengths):
    # The metadata has other lengths, which count only where no column is to be trusted.
    episodes = {
        number: FoundEpisode(number, length, [], (0, 0)) for number, length in enumerate((2, 3, 4))
    }
    path = tmp_path / "file-000.parquet"
    pq.write_table(pa.table(COLUMNS | change), path)
    rows = found_rows([FoundFile(path, 0, 0)], FoundMetadata({}, {}, episodes), RepairReport())
    assert [each.rows.num_rows for each in rows] == [*lengths]


def test_a_file_that_nothing_divides_is_one_episode(tmp_path):
    assert found(tmp_path, ["action"], listed()) == ([0], [9])


def test_unreadable_files_drop_their_episodes(tmp_path):
    paths = [tmp_path / f"episode_{number:06d}.parquet" for number in range(3)]
    paths[0].write_bytes(b"")
    paths[1].write_bytes(b"PAR1" + bytes(8) + b"PAR1")
    pq.write_table(pa.table({"action": pa.array([], pa.float32())}), paths[2])
    files = [FoundFile(path, 0, number) for number, path in enumerate(paths)]
    report = RepairReport()
    assert [*found_rows(files, listed(0, 1, 2), report)] == []
    assert report.dropped_episodes == [0, 1, 2]
    assert [each.fault.partition(":")[0] for each in report.repairs] == [
        "is empty (0 bytes)",
        "is damaged",
        "has no rows",
    ]
