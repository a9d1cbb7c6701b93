"""Values that are not finite, by sample, episode, frame and feature."""

import numpy as np
import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.data.loading.stream import BatchSplit, LoaderOptions, SampleStream
from manyhands.parallel.world import joined_world
from manyhands.training.health.nonfinite_samples import (
    NonFiniteValue,
    SampleInspector,
    StepSamples,
    describe,
    nonfinite_values,
)
from manyhands.training.setup.data import alone, open_training_data

NAN = float("nan")
WINDOWS = {"observation.state": [0], "action": [-1, 0, 2]}


def batch_of(num_samples: int) -> dict[str, torch.Tensor]:
    """Consecutive frames of an episode, from frame 5 on."""
    first = torch.arange(num_samples)
    return {
        "observation.state": torch.zeros(num_samples, 3),
        "action": torch.zeros(num_samples, 3, 2),
        "action_is_pad": torch.zeros(num_samples, 3, dtype=torch.bool),
        "index": 100 + first,
        "episode_index": torch.full((num_samples,), 7),
        "frame_index": 5 + first,
    }


def test_values_are_named_by_the_frame_that_holds_them():
    batch = batch_of(4)
    batch["observation.state"][2, 1] = NAN
    batch["action"][0, 2, 0] = float("inf")
    assert nonfinite_values(batch, WINDOWS) == [
        NonFiniteValue(100, 7, 7, "action"),
        NonFiniteValue(102, 7, 7, "observation.state"),
    ]


def test_padding_repeats_frames_and_is_not_named():
    batch = batch_of(1)
    batch["action"][0, 0, 0] = batch["action"][0, 1, 0] = NAN
    batch["action_is_pad"][0, 0] = True
    assert nonfinite_values(batch, WINDOWS) == [NonFiniteValue(100, 7, 5, "action")]


def test_pictures_are_finite_and_a_window_of_one_frame_may_have_no_axis():
    batch = batch_of(2) | {"camera": torch.zeros(2, 3, 4, 4, dtype=torch.uint8)}
    batch["observation.state"][1, 2] = NAN
    windows = {"camera": [0, 1], "observation.state": [3]}
    assert nonfinite_values(batch, windows) == [NonFiniteValue(101, 7, 9, "observation.state")]


def test_cameras_without_images_are_passed_over():
    batch = batch_of(1) | {"camera.tokens": torch.zeros(1, 4, 8)}
    batch["observation.state"][0, 2] = NAN
    windows = {"camera": [0], "observation.state": [0]}
    assert nonfinite_values(batch, windows) == [NonFiniteValue(100, 7, 5, "observation.state")]


def test_what_single_precision_cannot_hold_is_not_finite():
    batch = batch_of(1) | {"observation.state": torch.full((1, 3), 1e300, dtype=torch.float64)}
    assert nonfinite_values(batch, WINDOWS) == [NonFiniteValue(100, 7, 5, "observation.state")]


def test_of_several_datasets_the_one_is_named():
    batch = batch_of(1) | {"dataset_index": torch.tensor([1])}
    batch["observation.state"][0, 0] = NAN
    (culprit,) = nonfinite_values(batch, WINDOWS)
    assert str(culprit) == "observation.state of episode 7, frame 5 of dataset 1 (sample row 100)"


def test_a_value_that_many_samples_see_is_told_once():
    culprits = [NonFiniteValue(row, 1, 4, "action") for row in (9, 10)]
    told = describe(StepSamples([9, 10], culprits))
    assert told == "non-finite input: action of episode 1, frame 4 (sample row 9)"
    many = [NonFiniteValue(row, 1, row, "action") for row in range(5)]
    assert describe(StepSamples([], many)).endswith("frame 2 (sample row 2) and 2 more")
    assert describe(StepSamples([1, 2], [])) == "all values of its 2 samples are finite"


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_the_samples_of_a_past_update_are_read_again(command, plant, tmp_path, num_ranks):
    root = plant(tmp_path / "data", "action", NAN)
    argv = [f"--dataset.root={root}", *command.argv(tmp_path)[1:], "--dataset.check=off"]
    data, config = open_training_data(read_train_config(argv), alone)
    found, rows = [], []
    with joined_world(config) as world:
        for rank in range(num_ranks):
            split = BatchSplit(rank, num_ranks, 8)
            stream = SampleStream(data.source, data.order, split, LoaderOptions(num_workers=0))
            evidence = SampleInspector(stream, {"action": range(6)}, world).inspect(16)
            found, rows = found + evidence.values, rows + evidence.rows
    drawn = data.order.indices(16, 24)
    assert rows == drawn.tolist()
    assert {(each.episode, each.frame) for each in found} == {(1, 4)}
    assert (
        sorted(each.row for each in found) == np.sort(drawn[(drawn >= 9) & (drawn <= 13)]).tolist()
    )
