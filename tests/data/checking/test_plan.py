"""The files to look at."""

from manyhands.data.checking.cameras import ImageFile, VideoFile
from manyhands.data.checking.check import files_to_check
from manyhands.data.checking.rows import RowFile

TOP = "observation.images.top"


def planned(source, keys=None, is_full=True):
    return [*files_to_check(source, keys or source.meta.info.features, is_full)]


def test_each_file_is_looked_at_once_per_camera(source_of, plain_root, damaged_root):
    kinds = [type(file) for file in planned(source_of(plain_root))]
    assert kinds == [RowFile, VideoFile, ImageFile]
    kinds = [type(file) for file in planned(source_of(damaged_root))]
    assert kinds == [RowFile] * 2 + [VideoFile] * 2 + [ImageFile] * 2


def test_stretches_are_where_the_episodes_are(source_of, plain_root):
    for file in planned(source_of(plain_root, [1, 2])):
        assert [stretch[:3] for stretch in file.part.stretches] == [(1, 5, 3), (2, 8, 6)]
        assert [stretch.start for stretch in file.part.stretches] == [5, 8]


def test_only_files_of_chosen_episodes_and_keys_are_looked_at(source_of, damaged_root):
    rows, video = planned(source_of(damaged_root, [1]), [TOP, "action"])
    assert rows.part.path == "data/chunk-001/file-000.parquet"
    assert rows.held == ((3, 5),)
    assert (video.camera.key, video.part.stretches[0].start) == (TOP, 0)


def test_rows_know_everything_their_file_must_hold(source_of, plain_root):
    (rows, *_) = planned(source_of(plain_root, [1]), ["action"])
    assert rows.held == ((0, 5), (5, 8), (8, 14))
    assert rows.num_frames == 3
