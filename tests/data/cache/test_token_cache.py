"""Tokens of frames, kept as frames are."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from manyhands.data.cache.contents import cached_stores, clear
from manyhands.data.cache.frame_cache import CacheOptions
from manyhands.data.cache.token_cache import TokenSpec, plan_token_caches
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.read_options import ReadOptions
from manyhands.errors import EnvironmentFault
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

VIDEO, STORED = "observation.images.top", "observation.image"
FORM = TokenSpec("a" * 64, (2, 3), np.dtype(np.int16))
NUM_FRAMES = 14


def source_of(root, episodes=None) -> Source:
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, episodes))


def planned(root, home, episodes=None, form=FORM, **wish):
    source = source_of(root, episodes)
    cameras = [key for key, each in source.meta.info.features.items() if each.is_camera]
    wish = CacheOptions(home=home, **({"mode": "disk"} | wish))
    return plan_token_caches([(source, ReadOptions())], dict.fromkeys(cameras, form), wish)


def tokens_of(frames: np.ndarray) -> np.ndarray:
    return (10 * frames[:, None, None] + np.arange(6).reshape(2, 3)).astype(np.int16)


def filled(plan, frames=range(NUM_FRAMES)):
    caches = plan.opened()
    for store in caches.caches[0].of_camera.values():
        for frame, tokens in zip(frames, tokens_of(np.array(frames)), strict=True):
            store.write(frame, store.encode(tokens))
    return caches


@pytest.mark.parametrize("mode", ["disk", "ram"])
def test_a_dataset_reads_tokens_instead_of_pictures(plain_root, tmp_path, mode):
    caches = filled(planned(plain_root, tmp_path, [0, 2], mode=mode))
    reading = ReadOptions(
        home=tmp_path, cache=caches.caches[0], rename_map={VIDEO: f"{VIDEO}.tokens"}
    )
    dataset = Dataset(source_of(plain_root, [0, 2]), reading, {})
    batch = pickle.loads(pickle.dumps(dataset)).batch([4, 5, 10])
    assert batch[f"{VIDEO}.tokens"].numpy().tolist() == tokens_of(np.array([4, 8, 13])).tolist()
    assert VIDEO not in batch


def test_what_is_lost_during_a_run_is_told(plain_root, tmp_path):
    caches = filled(planned(plain_root, tmp_path), range(9))
    dataset = open_dataset(root=plain_root, reading=ReadOptions(cache=caches.caches[0]))
    with pytest.raises(EnvironmentFault, match=r"lacks the tokens of frame 9, .* Restart the run"):
        dataset.batch([8, 9])


def test_a_folder_that_cannot_be_written_to_is_told(plain_root, tmp_path):
    plan = planned(plain_root, tmp_path)
    (tmp_path / "frames").write_text("in the way")
    with pytest.raises(EnvironmentFault, match=r"cannot write vision tokens to .* --cache\.folder"):
        plan.opened()


def test_stores_are_found_again_by_what_tokens_are_of(plain_root, tmp_path):
    caches = filled(planned(plain_root, tmp_path))
    caches.make_durable()
    again = planned(plain_root, tmp_path).opened()
    frames = np.arange(NUM_FRAMES)
    assert all(store.are_present(frames).all() for store in again.stores)
    for other in (replace(FORM, identity="b" * 64), replace(FORM, shape=(3, 2))):
        stores = planned(plain_root, tmp_path, form=other).opened().stores
        assert not any(store.are_present(frames).any() for store in stores)


def test_the_encoding_of_frames_makes_no_difference(plain_root, tmp_path):
    plain, jpeg = (planned(plain_root, tmp_path, encoding=each) for each in ("raw", "jpeg"))
    assert plain.specs == jpeg.specs


@pytest.mark.parametrize(
    ("most", "where"), [(NUM_FRAMES * 12 * 2, "disk"), (NUM_FRAMES * 12 * 2 - 1, "off")]
)
def test_all_tokens_are_kept_or_none(plain_root, tmp_path, most, where):
    plan = planned(plain_root, tmp_path, max_disk=most)
    assert len(plan.specs[0]) == 2 and plan.where == where
    kept = {"disk": "vision tokens on disk", "off": "vision tokens are not cached"}
    assert kept[where] in plan.reason


def test_tokens_are_shown_counted_and_cleared_like_frames(plain_root, tmp_path):
    filled(planned(plain_root, tmp_path))
    stores = cached_stores(tmp_path)
    assert {store.description["size"] for store in stores} == {"2x3 tokens of aaaaaaaa"}
    assert all(store.num_present == NUM_FRAMES for store in stores)
    other = planned(
        plain_root, tmp_path, form=replace(FORM, identity="b" * 64), max_disk=NUM_FRAMES * 40
    )
    assert other.where == "off"
    assert clear(tmp_path) > 0 and cached_stores(tmp_path) == []
