"""Frames built ahead of any run."""

import pytest

from manyhands.data.cache.contents import cached_stores
from manyhands.data.cache.fill import build_cache
from manyhands.data.cache.frame_cache import CacheOptions
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.read_options import ReadOptions
from manyhands.errors import UserError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta


def source_of(root) -> Source:
    meta = read_dataset_meta(root)
    return Source(root, meta, select_episodes(meta.episodes, None))


def test_cameras_that_are_left_out_are_not_built(plain_root, tmp_path):
    reading = ReadOptions(skip=["observation.image"])
    wish = CacheOptions(home=tmp_path, mode="disk")
    done, _ = build_cache(source_of(plain_root), reading, wish, 1, lambda done, total: None)
    assert done.num_decoded == 14
    (store,) = cached_stores(tmp_path)
    assert store.description["camera"] == "observation.images.top"


def test_a_budget_that_holds_nothing_is_told(plain_root, tmp_path):
    wish = CacheOptions(home=tmp_path, mode="disk", max_disk=0)
    with pytest.raises(
        UserError, match=r"nothing to build\. Frame cache: off, frames are decoded every time"
    ):
        build_cache(source_of(plain_root), ReadOptions(), wish, 1, lambda done, total: None)
