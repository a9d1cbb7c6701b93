"""What keeps a run from reading tokens."""

from dataclasses import replace

import pytest

from manyhands.config.sections.cache import vision_token_faults
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.sections.image_transforms import ImageTransformsConfig
from manyhands.config.train import CacheConfig, DatasetConfig, TrainConfig

TRANSFORMS = ImageTransformsConfig(enable=True)
CONFIG = TrainConfig(cache=CacheConfig(vision_tokens=True))


def test_by_themselves_tokens_can_be_had():
    assert [*vision_token_faults(CONFIG)] == []


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (TrainConfig(cache=CacheConfig(vision_tokens=True, mode="off")), "--cache.mode=off"),
        (
            replace(CONFIG, dataset=DatasetConfig(image_transforms=TRANSFORMS)),
            "--dataset.image_transforms.enable=true",
        ),
        (
            replace(CONFIG, parallelism=ParallelismConfig(dp_shard=-1)),
            "--parallelism.dp_shard=-1",
        ),
    ],
)
def test_what_contradicts_them_is_named(config, told):
    (fault,) = vision_token_faults(config)
    assert "--cache.vision_tokens=true" in fault and told in fault
    unasked = replace(config, cache=replace(config.cache, vision_tokens=False))
    assert [*vision_token_faults(unasked)] == []
