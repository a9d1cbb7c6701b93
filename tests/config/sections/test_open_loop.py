"""Flags of evaluation on recorded episodes."""

import pytest

from manyhands.config.sections.eval import TrainEvalConfig
from manyhands.config.sections.open_loop import (
    EvaluatedDatasetConfig,
    OpenLoopConfig,
    open_loop_faults,
)
from manyhands.config.train import CacheConfig, DatasetConfig, TrainConfig


@pytest.mark.parametrize(("name", "value"), [("stride", 0), ("max_samples", -1)])
def test_numbers_that_mean_nothing_are_refused_by_flag_and_value(name, value):
    least = 1 if name == "stride" else 0
    assert OpenLoopConfig(**{name: value}).faults() == [
        f"--open_loop.{name}={value} must be at least {least}"
    ]


def test_no_stride_and_no_limit_are_fine():
    assert OpenLoopConfig(stride=None, max_samples=0).faults() == []


def test_a_dataset_is_named_by_folder_or_on_the_hub(tmp_path):
    assert not EvaluatedDatasetConfig(episodes=[1]).is_named
    assert EvaluatedDatasetConfig(root=tmp_path).is_named
    assert EvaluatedDatasetConfig(repo_id="lerobot/pusht").is_named


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"eval_steps": 0}, "needs held-out episodes. Set --dataset.eval_split=0.1"),
        ({"dataset": DatasetConfig(mix={"a": 1.0})}, "but --dataset.mix names several"),
        ({"cache": CacheConfig(vision_tokens=True)}, "but --cache.vision_tokens=true"),
    ],
)
def test_a_run_compares_actions_only_of_one_held_out_dataset_with_images(settings, told):
    asking = TrainEvalConfig(open_loop=True)
    (fault,) = open_loop_faults(TrainConfig(**({"eval_steps": 5, "eval": asking} | settings)))
    assert fault.startswith("--eval.open_loop=true ") and told in fault
    assert list(open_loop_faults(TrainConfig(**settings))) == []
    assert list(open_loop_faults(TrainConfig(eval_steps=5, eval=asking))) == []
