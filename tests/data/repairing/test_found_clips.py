"""Clips are found by metadata, file names or order."""

import pytest

from manyhands.data.images.formats import image_format
from manyhands.data.repairing.found_clips import FoundClips, first_facts, video_facts
from manyhands.data.repairing.found_files import FoundFile, find_files
from manyhands.data.repairing.report import RepairReport
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import read_info

TOP = "observation.images.top"


def clips_of(root):
    files = find_files(root, RepairReport()).videos[TOP]
    return FoundClips(files, image_format(read_info(root).features[TOP])), files


def test_facts_are_those_of_the_file(plain_root):
    _, (file,) = clips_of(plain_root)
    facts = video_facts(file.path)
    assert (facts.height, facts.width, facts.rate, facts.num_frames) == (32, 48, 10, 14)


def test_an_episode_is_found_by_metadata_or_by_order(plain_root):
    clips, (file,) = clips_of(plain_root)
    assert clips.place(1, 3, (0, 0, 0.5)) == (file.path, 5)
    places = [clips.place(number, length, None)[1] for number, length in enumerate((5, 3, 6))]
    assert places == [0, 5, 8]
    assert clips.clip(file.path, 5, 3).num_frames == 3
    clips.close()
    with pytest.raises(DatasetError, match="no frames left"):
        clips.place(3, 1, None)
    with pytest.raises(DatasetError, match=r"there is no video chunk-000/file-007.mp4"):
        clips.place(1, 3, (0, 7, 0.5))


def test_an_episode_of_version_2_is_found_by_its_file(old_root):
    clips, files = clips_of(old_root)
    assert clips.place(1, 3, None) == (files[1].path, 0)
    with pytest.raises(DatasetError, match="has 3 of the 4 frames"):
        clips.place(1, 4, None)
    with pytest.raises(DatasetError, match="no video episode_000009"):
        clips.place(9, 4, None)


def test_the_first_usable_video_is_taken(old_root):
    _, files = clips_of(old_root)
    files[0].path.write_bytes(b"")
    assert first_facts({TOP: files})[TOP].num_frames == 3
    with pytest.raises(DatasetError, match="is empty"):
        first_facts({TOP: files[:1]})


def test_a_damaged_frame_is_named(plain_root, tmp_path):
    _, (file,) = clips_of(plain_root)
    content = bytearray(file.path.read_bytes())
    start = content.index(b"mdat") + 300
    content[start : start + 200] = bytes(200)
    (tmp_path / "a.mp4").write_bytes(content)
    feature = read_info(plain_root).features[TOP]
    clips = FoundClips([FoundFile(tmp_path / "a.mp4", 0, 0)], image_format(feature))
    with pytest.raises(DatasetError, match=r"a.mp4: frame \d+ is damaged"):
        clips.clip(tmp_path / "a.mp4", 0, 14)
