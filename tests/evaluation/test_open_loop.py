"""Open-loop errors: what they are, and that they depend on nothing but policy, data and seed."""

import numpy as np
import pytest
import torch

from manyhands.evaluation.action_errors import ABSOLUTE
from manyhands.evaluation.open_loop import (
    OpenLoop,
    frames_of,
    joined_errors,
    rank_errors,
    sample_rows,
)


def measured(policy, dataset, num_ranks=1, seed=7):
    rows = np.arange(dataset.num_frames)
    parts = [
        rank_errors(OpenLoop(policy, dataset, seed), rows, rank, num_ranks)
        for rank in range(num_ranks)
    ]
    return joined_errors(parts)


def assert_same(one, other):
    for name in ("counts", "absolute", "squared"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("num_ranks", [2, 3, 7])
def test_errors_are_the_same_on_any_number_of_ranks(
    recorded_policy, open_for, tiny_dataset, num_ranks
):
    policy = recorded_policy
    dataset = open_for(policy, tiny_dataset)
    assert_same(measured(policy, dataset, num_ranks), measured(policy, dataset))


def test_all_ranks_predict_equally_often(make_policy, open_for, tiny_dataset):
    policy = make_policy()
    open_loop = OpenLoop(policy, open_for(policy, tiny_dataset), 0)
    asked = []
    open_loop.errors = lambda rows: asked.append(rows)
    for rank in range(3):
        rank_errors(open_loop, np.arange(39), rank, 3)
    assert len(asked) == 6


def test_errors_are_those_of_the_policy_at_each_sample_alone(make_policy, open_for, tiny_dataset):
    policy = make_policy()
    dataset = open_for(policy, tiny_dataset)
    distances = [[] for _ in range(6)]
    for row in range(dataset.num_frames):
        sample = dataset.batch([row])
        chunk = policy.predict_action_chunk(
            {name: sample[name] for name in policy.config.input_features}
        )
        for step in np.flatnonzero(~sample["action_is_pad"][0].numpy()):
            distances[step].append((chunk - sample["action"])[0, step].abs().mean().item())
    errors = measured(policy, dataset)
    for step, expected in enumerate(distances):
        assert errors.counts[step] == len(expected)
        assert errors.at_step(step)[ABSOLUTE] == pytest.approx(np.mean(expected), rel=1e-4)


def test_a_diffusion_chunk_starts_at_the_frame_of_the_observation(
    make_policy, open_for, tiny_dataset, monkeypatch
):
    """Its window of actions starts earlier, with the oldest observation."""
    policy = make_policy("diffusion")
    dataset = open_for(policy, tiny_dataset, [1])
    actions = torch.from_numpy(dataset.column_values("action", np.arange(9, 21)))
    reached = []

    def perfect(observation, draws):
        chunks = [actions[row : row + 4] for row in reached]
        chunks = [torch.nn.functional.pad(chunk, (0, 0, 0, 4 - len(chunk))) for chunk in chunks]
        return torch.stack(chunks)

    monkeypatch.setattr(policy, "predict_action_chunk", perfect)
    open_loop = OpenLoop(policy, dataset, 0)
    for rows in open_loop.batches(np.arange(12)):
        reached[:] = rows
        assert open_loop.errors(rows).absolute.max() == 0


def test_noise_belongs_to_the_frame_and_the_seed(make_policy, open_for, tiny_dataset):
    policy = make_policy("diffusion")
    dataset, last = open_for(policy, tiny_dataset), open_for(policy, tiny_dataset, [2, 3])
    chunks = OpenLoop(policy, dataset, 7).chunks(np.array([24, 30]))
    alone = OpenLoop(policy, last, 7).chunks(np.array([3, 9]))
    assert np.allclose(chunks, alone, atol=1e-5)
    assert not np.allclose(chunks, OpenLoop(policy, dataset, 8).chunks(np.array([24, 30])), 1e-2)


def test_a_policy_that_renames_gets_the_names_that_it_renames(make_policy, open_for, tiny_dataset):
    policy = make_policy()
    dataset = open_for(policy, tiny_dataset)
    expected = OpenLoop(policy, dataset, 0).chunks(np.array([5]))
    policy.processors.rename_map["observation.joints"] = "observation.state"
    assert np.array_equal(OpenLoop(policy, dataset, 0).chunks(np.array([5])), expected)


def test_samples_are_strided_by_episode_and_spread_when_there_are_too_many(
    make_policy, open_for, tiny_dataset
):
    dataset = open_for(make_policy(), tiny_dataset)
    assert sample_rows(dataset, 4, 0).tolist() == [0, 4, 8, 9, 13, 17, 21, 25, 28, 32, 36]
    assert sample_rows(dataset, 4, 11).tolist() == sample_rows(dataset, 4, 0).tolist()
    assert sample_rows(dataset, 4, 3).tolist() == [0, 9, 25]


def test_frames_are_counted_in_the_complete_dataset(make_policy, open_for, tiny_dataset):
    dataset = open_for(make_policy(), tiny_dataset, [1, 3])
    assert frames_of(dataset, np.array([0, 11, 12])).tolist() == [9, 20, 28]
