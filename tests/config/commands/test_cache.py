"""Caches that cannot be built."""

from pathlib import Path

import pytest

from manyhands.config.commands.cache import (
    CacheBuildConfig,
    CacheContentsConfig,
    CachedDatasetConfig,
)
from manyhands.config.train import DiskCacheConfig

HERE = Path("here")


def test_sound_values_have_no_fault():
    assert CacheBuildConfig(dataset=CachedDatasetConfig(root=HERE)).faults() == []
    assert CacheContentsConfig().faults() == []


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (CacheBuildConfig(), "no dataset"),
        (
            CacheBuildConfig(
                dataset=CachedDatasetConfig(root=HERE),
                cache=DiskCacheConfig(max_disk="lots"),
            ),
            "--cache.max_disk",
        ),
        (CacheBuildConfig(dataset=CachedDatasetConfig(root=HERE), num_workers=0), "--num_workers"),
        (
            CacheBuildConfig(dataset=CachedDatasetConfig(root=HERE, image_size=(0, 1))),
            "--dataset.image_size",
        ),
        (
            CacheBuildConfig(dataset=CachedDatasetConfig(root=HERE, depth_output_unit="cm")),
            "--dataset.depth_output_unit",
        ),
    ],
)
def test_faults_name_their_flag(config, told):
    (fault,) = config.faults()
    assert fault.startswith(told)
