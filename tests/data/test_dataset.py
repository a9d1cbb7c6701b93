"""Items and batches, against what LeRobot returns."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError

EXPECTED = [
    "images_in_parquet",
    "many_small_files",
    "pusht_act_episodes_3_7",
    "pusht_diffusion",
    "two_cameras_video",
]


def folder_of(shared: Path, name: str) -> Path:
    if name.startswith("pusht"):
        return shared / "data" / "pusht"
    return shared / "fixtures" / "datasets" / name


def two_cameras(shared: Path) -> Path:
    return folder_of(shared, "two_cameras_video")


@pytest.mark.parametrize("name", EXPECTED)
def test_items_equal_lerobots_to_the_last_number_and_pixel(shared, name):
    file = shared / "fixtures" / "expected_items" / f"{name}.json"
    case, expected = json.loads(file.read_text()), load_file(file.with_suffix(".safetensors"))
    dataset = open_dataset(
        root=folder_of(shared, name), episodes=case.get("episodes"), windows=case["deltas"]
    )
    assert (len(dataset), dataset.fps) == (case["length"], case["fps"])
    for index in case["indices"]:
        item = dataset[index]
        assert item.pop("task") == case["tasks"][str(index)]
        assert {f"{index}/{key}" for key in item} == {
            key for key in expected if key.startswith(f"{index}/")
        }
        for key, value in item.items():
            wanted = expected[f"{index}/{key}"]
            if value.dtype == torch.uint8 and wanted.is_floating_point():
                wanted = (wanted * 255).round().to(torch.uint8)
            assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape), key
            assert torch.equal(value, wanted), key


def test_a_batch_stacks_items(shared):
    windows = {"observation.images.top": [-1, 0], "action": [0, 1]}
    dataset = open_dataset(root=two_cameras(shared), windows=windows)
    rows = [27, 0, 11, 0]
    batch, items = dataset.batch(np.array(rows)), [dataset[row] for row in rows]
    assert batch["task"] == [item["task"] for item in items]
    for key in batch.keys() - {"task"}:
        assert torch.equal(batch[key], torch.stack([item[key] for item in items])), key


def test_a_window_of_one_frame_loses_its_axis_only_for_video(shared):
    video = open_dataset(root=two_cameras(shared), windows={"observation.images.top": [0]})
    assert video[3]["observation.images.top"].shape == (3, 64, 96)
    assert video[3]["observation.images.top_is_pad"].shape == (1,)
    images = open_dataset(
        root=folder_of(shared, "images_in_parquet"),
        windows={"observation.image": [0], "observation.state": [0], "timestamp": [0]},
    )
    assert images[3]["observation.image"].shape == (1, 3, 64, 96)
    assert images[3]["observation.state"].shape == (1, 4)
    assert images[3]["timestamp"].shape == (1,)


def test_a_subset_has_the_same_items_in_dataset_order(shared):
    whole = open_dataset(root=two_cameras(shared), windows={"action": [-2, 0, 2]})
    subset = open_dataset(root=two_cameras(shared), windows={"action": [-2, 0, 2]}, episodes=[2, 0])
    assert (len(subset), subset.num_episodes) == (21, 2)
    assert subset.episode_bounds.tolist() == [[0, 12], [12, 21]]
    for row, same in [(0, 0), (11, 11), (12, 19), (20, 27)]:
        for key, value in whole[same].items():
            assert np.array_equal(subset[row][key], value), key


def test_images_in_the_table_are_found_for_a_subset(plain_root):
    whole, subset = open_dataset(root=plain_root), open_dataset(root=plain_root, episodes=[2])
    assert torch.equal(subset[4]["observation.image"], whole[12]["observation.image"])


def test_skipped_keys_are_left_out_and_their_files_not_needed(shared, tmp_path):
    root = shutil.copytree(two_cameras(shared), tmp_path / "dataset")
    camera = "observation.images.wrist"
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(root / "videos" / camera)
    dataset = open_dataset(
        root=root, windows={camera: [0]}, reading=ReadOptions(skip=[camera, "index"])
    )
    assert dataset[0].keys().isdisjoint({camera, f"{camera}_is_pad", "index"})
    with pytest.raises(DatasetError, match=rf"{camera}.*file-000.mp4 is missing"):
        open_dataset(root=root)


def test_every_integer_is_int64_and_every_float_float32(plain_root):
    item = open_dataset(root=plain_root)[4]
    dtypes = {key: value.dtype for key, value in item.items() if isinstance(value, torch.Tensor)}
    assert dtypes["action"] == dtypes["timestamp"] == torch.float32
    assert dtypes["observation.counts"] == dtypes["task_index"] == torch.int64
    assert dtypes["next.done"] == torch.bool
    assert dtypes["observation.image"] == dtypes["observation.images.top"] == torch.uint8
    assert item["next.done"].shape == ()
    assert item["note"] == "note 4"


def test_rows_count_from_either_end_and_no_further(plain_root):
    dataset = open_dataset(root=plain_root)
    assert dataset[-1]["index"] == dataset[13]["index"] == 13
    assert len(list(dataset)) == 14
    for row in (14, -15):
        with pytest.raises(IndexError):
            dataset[row]


def test_a_copy_sent_to_another_process_reads_the_same(plain_root):
    dataset = open_dataset(root=plain_root, windows={"observation.images.top": [-1, 0]})
    first = dataset.batch([0, 7, 13])
    again = pickle.loads(pickle.dumps(dataset)).batch([0, 7, 13])
    assert first.keys() == again.keys()
    assert torch.equal(first["observation.images.top"], again["observation.images.top"])
    assert torch.equal(first["observation.image"], again["observation.image"])


def test_the_fingerprint_follows_content_and_not_place(plain_root, tmp_path):
    copy = shutil.copytree(plain_root, tmp_path / "elsewhere")
    fingerprint = open_dataset(root=plain_root).fingerprint
    assert open_dataset(root=copy, episodes=[1]).fingerprint == fingerprint
    info = copy / "meta" / "info.json"
    info.write_text(info.read_text().replace('"fps": 10', '"fps": 20'))
    assert open_dataset(root=copy).fingerprint != fingerprint


def test_statistics_are_those_of_the_whole_dataset(shared):
    dataset = open_dataset(root=two_cameras(shared), episodes=[1])
    assert dataset.stats["action"]["count"].tolist() == [28]
    assert dataset.stats["observation.images.top"]["mean"].shape == (3, 1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"windows": {"acton": [0]}}, "windows: unknown feature acton; the dataset has .*action"),
        ({"windows": {"action": [0.5]}}, "window of action"),
        ({"windows": {"action": []}}, "window of action"),
        ({"windows": {"note": [0]}}, "note has string values"),
        ({"reading": ReadOptions(skip=["camera"])}, "skip: unknown feature camera"),
        ({"episodes": [3]}, "unknown episode 3"),
        ({"episodes": []}, "no frames selected"),
    ],
)
def test_a_wrong_wish_is_refused_by_name(plain_root, options, message):
    with pytest.raises(DatasetError, match=message):
        open_dataset(root=plain_root, **options)


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
@pytest.mark.parametrize("name", ["two_cameras_video", "images_in_parquet", "many_small_files"])
def test_an_older_format_has_the_items_of_its_twin(
    shared, version_2, unlike, tmp_path, version, name
):
    twin = shared / "fixtures" / "datasets" / name
    version_2(twin, tmp_path / "old", version)
    assert open_dataset(root=tmp_path / "old").info.codebase_version == version
    assert unlike(twin, tmp_path / "old") == set()


def test_windows_and_subsets_of_an_older_format_are_those_of_its_twin(shared, version_2, tmp_path):
    twin = two_cameras(shared)
    version_2(twin, tmp_path / "old")
    windows = {"observation.images.top": [-1, 0], "action": [0, 1, 2, 3, 4]}
    old, new = (
        open_dataset(root=root, episodes=[1, 2], windows=windows)
        for root in (tmp_path / "old", twin)
    )
    assert len(old) == len(new)
    for key, value in new.batch(range(len(new))).items():
        assert np.array_equal(old.batch(range(len(old)))[key], value), key


def test_a_folder_may_be_the_first_argument(shared):
    root = two_cameras(shared)
    by_root = open_dataset(root=root)
    for given in (root, str(root)):
        assert open_dataset(given).fingerprint == by_root.fingerprint
    with pytest.raises(DatasetError, match=r'open_dataset\("data/pick"\)'):
        open_dataset()


def test_a_slice_is_a_batch(shared):
    dataset = open_dataset(two_cameras(shared))
    found, expected = dataset[1:4], dataset.batch([1, 2, 3])
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found["index"], expected["index"])
    np.testing.assert_array_equal(dataset[[1, -1]]["index"], [1, len(dataset) - 1])
    np.testing.assert_array_equal(dataset[-2:]["index"], [len(dataset) - 2, len(dataset) - 1])
    with pytest.raises(IndexError):
        dataset[3:3]


def test_a_dataset_shows_what_it_has(shared):
    dataset = open_dataset(two_cameras(shared))
    shown = repr(dataset)
    assert str(dataset.root) in shown and f"{dataset.num_episodes} episodes" in shown
    assert all(name in shown for name in dataset.features)


def test_faults_name_the_arguments_of_python(tiny_dataset, tmp_path):
    with pytest.raises(DatasetError, match=r"^episodes: unknown episode 99"):
        open_dataset(tiny_dataset, episodes=[99])
    for missing in (tmp_path / "missing", str(tmp_path / "missing"), "./missing"):
        with pytest.raises(DatasetError, match=r"Set root=DIR to the folder of a dataset"):
            open_dataset(missing)
