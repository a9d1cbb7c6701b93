"""When a file is full."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.images.encoder import ClipEncoder
from manyhands.data.writing.output_files import ClipFiles, FrameFiles, SizeLimits


def episode(num_rows: int) -> pa.Table:
    """Rows that no compression makes smaller than 80 bytes each."""
    numbers = np.random.default_rng(num_rows).normal(size=num_rows * 10)
    return pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(numbers), 10)})


def test_numbers_run_through_files_and_then_folders():
    limits, number, seen = SizeLimits(files_per_chunk=2), None, []
    for _ in range(5):
        number = limits.after(number)
        seen.append(number)
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


def test_a_data_file_is_left_before_it_grows_past_the_limit(tmp_path):
    limit = 20_000
    files = FrameFiles(tmp_path, SizeLimits(data_file_bytes=limit))
    numbers = [files.append(episode(100)) for _ in range(6)]
    files.close()
    paths = sorted(tmp_path.rglob("*.parquet"))
    assert [file for _, file in numbers] == [0, 0, 1, 1, 2, 2]
    assert [pq.read_metadata(path).num_rows for path in paths] == [200, 200, 200]
    assert all(path.stat().st_size < limit for path in paths)


def test_an_episode_larger_than_the_limit_gets_a_file_of_its_own(tmp_path):
    files = FrameFiles(tmp_path, SizeLimits(data_file_bytes=1))
    assert [files.append(episode(5)) for _ in range(2)] == [(0, 0), (0, 1)]
    files.close()


def test_clips_are_placed_by_exact_frame_counts(tmp_path, picture):
    encoder = ClipEncoder(30, 32, 32)
    for number in range(7):
        encoder.add(picture(32, 32, number))
    clip = encoder.finish()
    limits = SizeLimits(video_file_bytes=clip.num_bytes * 5 // 2)
    files = ClipFiles(tmp_path, "top", 30, limits)
    placements = [files.append(clip) for _ in range(3)]
    files.close()
    assert [placement.file_index for placement in placements] == [0, 0, 1]
    assert [placement.from_timestamp for placement in placements] == [0, 7 / 30, 0]
    assert [placement.to_timestamp for placement in placements] == [7 / 30, 14 / 30, 7 / 30]


def test_columns_of_other_types_begin_a_file(tmp_path):
    files = FrameFiles(tmp_path, SizeLimits())
    tables = [pa.table({"x": [1]}), pa.table({"x": [2]}), pa.table({"x": ["a"]})]
    assert [files.append(table) for table in tables] == [(0, 0), (0, 0), (0, 1)]
    files.close()
