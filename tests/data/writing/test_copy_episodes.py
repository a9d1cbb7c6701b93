"""Episodes in a copy are the episodes they were."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.images.encoder import ClipEncoder, ClipFile
from manyhands.data.writing.copy_episodes import copy_episodes
from manyhands.data.writing.copy_sources import EpisodeChoice
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

TOP = "observation.images.top"
RENUMBERED = {"index", "episode_index", "task_index"}
SHARED = ["two_cameras_video", "many_small_files", "images_in_parquet"]


def read_info(root: Path) -> dict:
    return json.loads((root / "meta/info.json").read_text())


def columns_of(root: Path, key: str) -> list:
    dataset = open_dataset(root=root)
    return [dataset[row][key] for row in range(len(dataset))]


def test_a_copy_of_everything_is_the_same_dataset(plain_root, tmp_path, unlike, files_of):
    before = files_of(plain_root)
    summary = copy_episodes([EpisodeChoice(plain_root)], tmp_path / "copy")
    assert unlike(plain_root, tmp_path / "copy") == set()
    assert (summary.num_episodes, summary.num_frames, summary.num_tasks) == (3, 14, 3)
    assert (summary.num_clips, summary.num_encoded_clips, summary.dropped_columns) == (3, 0, [])
    assert read_info(tmp_path / "copy") == read_info(plain_root)
    after = files_of(tmp_path / "copy")
    assert summary.num_bytes == sum(map(len, after.values()))
    assert files_of(plain_root) == before
    # Rows and statistics are written as the recorder writes them.
    for name in ("data/chunk-000/file-000.parquet", "meta/tasks.parquet"):
        assert after[name] == before[name]
    ours, theirs = (open_dataset(root=root).stats for root in (tmp_path / "copy", plain_root))
    assert ours.keys() == theirs.keys()
    for key, stats in ours.items():
        for name, value in stats.items():
            assert value == pytest.approx(theirs[key][name], abs=1e-12), (key, name)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_lerobots_datasets_are_converted_exactly(
    shared, tmp_path, version_2, unlike, name, version
):
    twin = source = shared / "fixtures" / "datasets" / name
    if version != "v3.0":
        source = tmp_path / "source"
        version_2(twin, source, version)
    copy_episodes([EpisodeChoice(source)], tmp_path / "copy")
    assert unlike(twin, tmp_path / "copy") == set()
    assert read_info(tmp_path / "copy") == read_info(twin) | {
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
    }
    ours, theirs = (read_dataset_meta(root) for root in (tmp_path / "copy", twin))
    assert ours.episodes.tasks == theirs.episodes.tasks
    assert ours.tasks == theirs.tasks


def test_our_own_datasets_come_back_from_version_2(plain_root, tmp_path, version_2, unlike):
    version_2(plain_root, tmp_path / "old")
    summary = copy_episodes([EpisodeChoice(tmp_path / "old")], tmp_path / "copy")
    assert unlike(plain_root, tmp_path / "copy") == set()
    assert summary.num_encoded_clips == 0
    ours, theirs = (
        pq.read_schema(root / "data/chunk-000/file-000.parquet")
        for root in (tmp_path / "copy", plain_root)
    )
    assert ours.equals(theirs, check_metadata=True)
    stats = open_dataset(root=tmp_path / "copy").stats
    assert set(stats["action"]) == {"min", "max", "mean", "std", "count"}
    assert stats["observation.grid"]["mean"].shape == (3,)


def test_removal_renumbers_what_is_left(plain_root, tmp_path, unlike):
    summary = copy_episodes([EpisodeChoice(plain_root, exclude=[1])], tmp_path / "copy")
    assert (summary.num_episodes, summary.num_frames) == (2, 11)
    rows = [*range(5), *range(8, 14)]
    assert unlike(plain_root, tmp_path / "copy", rows) == {"index", "episode_index"}
    dataset = open_dataset(root=tmp_path / "copy")
    assert [item.item() for item in columns_of(tmp_path / "copy", "index")] == list(range(11))
    assert dataset.episode_bounds.tolist() == [[0, 5], [5, 11]]
    assert dataset[5]["episode_index"] == 1
    assert dataset.stats["index"]["max"].tolist() == [10]
    assert dataset.stats["episode_index"]["max"].tolist() == [1]
    assert read_info(tmp_path / "copy")["splits"] == {"train": "0:2"}


def test_episodes_come_in_the_order_asked_for_and_tasks_nobody_has_are_dropped(
    record, tmp_path, unlike
):
    source = tmp_path / "source"
    record(source, (3, 2, 1))
    copy_episodes([EpisodeChoice(source, [2, 1])], tmp_path / "copy")
    assert unlike(source, tmp_path / "copy", [5, 3, 4]) == RENUMBERED
    assert read_dataset_meta(tmp_path / "copy").tasks == ["task 1", "task 2"]
    numbers = [number.item() for number in columns_of(tmp_path / "copy", "task_index")]
    assert numbers == [1, 0, 0]


def test_datasets_are_merged_in_order_and_tasks_by_their_text(plain_root, record, tmp_path, unlike):
    other = tmp_path / "other"
    record(other, (2, 4))
    choices = [EpisodeChoice(other), EpisodeChoice(plain_root, [1])]
    summary = copy_episodes(choices, tmp_path / "merged")
    assert (summary.num_datasets, summary.num_episodes, summary.num_frames) == (2, 3, 9)
    merged = open_dataset(root=tmp_path / "merged")
    assert read_dataset_meta(tmp_path / "merged").tasks == ["task 0", "task 1", "task 2"]
    for row in range(6):
        assert merged[row]["note"] == open_dataset(root=other)[row]["note"]
    copy_episodes([EpisodeChoice(tmp_path / "merged", [2])], tmp_path / "part")
    assert unlike(plain_root, tmp_path / "part", [5, 6, 7]) == RENUMBERED
    assert len(list((tmp_path / "merged/videos").rglob("*.mp4"))) == 1


def test_merging_the_same_twice_doubles_it(plain_root, tmp_path, unlike):
    copy_episodes([EpisodeChoice(plain_root)] * 2, tmp_path / "twice")
    assert unlike(plain_root, tmp_path / "twice", [*range(14)] * 2) == {"index", "episode_index"}


def test_videos_encoded_otherwise_get_a_file_of_their_own(plain_root, tmp_path, unlike):
    other = tmp_path / "other"
    copy_episodes([EpisodeChoice(plain_root, [0])], other)
    file = next((other / "videos").rglob("*.mp4"))
    encode_h264(file, 5)
    info = read_info(other)
    info["features"][TOP]["info"] |= {"video.codec": "h264", "video.preset": None}
    (other / "meta/info.json").write_text(json.dumps(info))
    choices = [EpisodeChoice(plain_root), EpisodeChoice(other), EpisodeChoice(plain_root, [2])]
    summary = copy_episodes(choices, tmp_path / "merged")
    assert summary.num_encoded_clips == 0
    assert len(list((tmp_path / "merged/videos").rglob("*.mp4"))) == 3
    facts = read_info(tmp_path / "merged")["features"][TOP]["info"]
    assert (facts["video.codec"], facts["video.preset"], facts["video.g"]) == (None, None, 2)
    copy_episodes([EpisodeChoice(tmp_path / "merged", [3])], tmp_path / "part")
    assert unlike(other, tmp_path / "part") == set()


def encode_h264(path: Path, num_frames: int) -> None:
    """A video whose frames are not stored in the order they are shown in."""
    import av

    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=10, options={"bf": "2", "g": "8"})
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for number in range(num_frames):
            pixels = np.full((32, 48, 3), 40 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))


def test_clips_between_keyframes_are_encoded_again_and_counted(record, tmp_path, picture, unlike):
    source = tmp_path / "source"
    record(source, (5, 3, 6))
    encoder = ClipEncoder(10, 32, 48)
    for number in range(14):
        encoder.add(picture(32, 48, number))
    file = ClipFile(next((source / "videos").rglob("*.mp4")), 10)
    file.append(encoder.finish())
    file.close()
    summary = copy_episodes([EpisodeChoice(source)], tmp_path / "copy")
    assert (summary.num_clips, summary.num_encoded_clips) == (3, 1)
    assert unlike(source, tmp_path / "copy") == {TOP}
    ours, theirs = (columns_of(root, TOP) for root in (tmp_path / "copy", source))
    for row, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        distance = np.abs(one.numpy().astype(int) - other.numpy()).mean()
        assert distance < 6 if 5 <= row < 8 else distance == 0


def test_files_are_left_before_they_grow_past_the_limit(plain_root, tmp_path, unlike):
    limits = SizeLimits(2, 1, 1)
    copy_episodes([EpisodeChoice(plain_root)], tmp_path / "copy", limits=limits)
    assert unlike(plain_root, tmp_path / "copy") == set()
    for suffix in ("mp4", "parquet"):
        names = [path.name for path in (tmp_path / "copy").rglob(f"chunk-001/*.{suffix}")]
        assert names == [f"file-000.{suffix}"]


def test_labels_tools_and_subtasks_are_kept(record, tmp_path):
    source, other = tmp_path / "source", tmp_path / "other"
    for root in (source, other):
        record(root, (2, 1, 1))
        (root / "meta/subtasks.parquet").write_bytes(b"texts of subtasks")
    file = source / "meta/episodes/chunk-000/file-000.parquet"
    labels = pa.array([{"grade": 1}, {"grade": 2}, None])
    pq.write_table(pq.read_table(file).append_column("label", labels), file)
    (source / "meta/info.json").write_text(json.dumps(read_info(source) | {"tools": ["say"]}))
    copy_episodes([EpisodeChoice(other), EpisodeChoice(source, [1, 0])], tmp_path / "copy")
    episodes = pq.read_table(tmp_path / "copy/meta/episodes/chunk-000/file-000.parquet")
    assert episodes["label"].to_pylist() == [None, None, None, {"grade": 2}, {"grade": 1}]
    assert read_info(tmp_path / "copy")["tools"] == ["say"]
    assert (tmp_path / "copy/meta/subtasks.parquet").read_bytes() == b"texts of subtasks"


def test_annotations_go_through_untouched(plain_root, tmp_path):
    source = tmp_path / "source"
    copy_episodes([EpisodeChoice(plain_root)], source)
    info = read_info(source)
    info["features"]["language_events"] = {"dtype": "language", "shape": [1], "names": None}
    (source / "meta/info.json").write_text(json.dumps(info))
    file = source / "data/chunk-000/file-000.parquet"
    said = [[{"role": "user", "content": f"go {row}"}] if row % 3 else [] for row in range(14)]
    pq.write_table(pq.read_table(file).append_column("language_events", pa.array(said)), file)
    copy_episodes([EpisodeChoice(source, [2, 0])], tmp_path / "copy")
    assert columns_of(tmp_path / "copy", "language_events") == [*said[8:], *said[:5]]


def test_progress_is_told_episode_by_episode(plain_root, tmp_path):
    seen = []
    choices = [EpisodeChoice(plain_root), EpisodeChoice(plain_root, [1])]
    copy_episodes(choices, tmp_path / "copy", lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_an_error_on_the_way_leaves_nothing(damaged_root, tmp_path):
    next((damaged_root / "videos").rglob("file-*.mp4")).write_bytes(b"no video")
    with pytest.raises(DatasetError, match=r"\.mp4 is damaged"):
        copy_episodes([EpisodeChoice(damaged_root)], tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == [damaged_root.name]


def test_without_a_dataset_there_is_nothing_to_copy(tmp_path):
    with pytest.raises(DatasetError, match="no source dataset"):
        copy_episodes([], tmp_path / "copy")


def test_a_task_that_is_not_there_is_told(record, tmp_path):
    source = tmp_path / "source"
    record(source, (2,))
    file = source / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    place = table.column_names.index("task_index")
    pq.write_table(table.set_column(place, "task_index", pa.array([0, 9])), file)
    with pytest.raises(
        DatasetError, match="episode 0 refers to task 9, but the dataset has 1 tasks"
    ):
        copy_episodes([EpisodeChoice(source)], tmp_path / "copy")


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from manyhands.data.writing.copy_episodes import copy_episodes
from manyhands.data.writing.copy_sources import EpisodeChoice

source, target = map(Path, sys.argv[1:])
chance = random.Random(0)
for _ in range(8):
    process = os.fork()
    if not process:
        copy_episodes([EpisodeChoice(source)] * 20, target)
        os._exit(0)
    time.sleep(chance.uniform(0, 0.5))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    if target.exists():
        target.rename(target.with_name("finished"))
        break
copy_episodes([EpisodeChoice(source)] * 20, target)
"""


@pytest.mark.process
def test_a_copy_that_is_killed_leaves_nothing_under_its_name(plain_root, tmp_path):
    command = [sys.executable, "-c", KILLED, str(plain_root), str(tmp_path / "copy")]
    subprocess.run(command, check=True, timeout=100)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"copy"} <= names <= {"copy", "finished"}
    for name in names:
        assert len(open_dataset(root=tmp_path / name)) == 14 * 20
