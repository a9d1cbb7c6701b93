"""An episode gets the actions that it would get alone, with noise of its own."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.draws.counter import CounterSource
from manyhands.evaluation.actor import (
    PIXELS_ON_GPU,
    ROWS_ON_CPU,
    Actor,
    ChunkRequest,
    rows_per_batch,
)

MAX_STEPS = 50
STATE, GOAL = "observation.state", "observation.environment_state"


def observed(number):
    values = np.random.default_rng(number).normal(size=(2, 2, 4)).astype(np.float32)
    return dict(zip((STATE, GOAL), values, strict=True))


def requests(*episodes, step=0):
    return [ChunkRequest(episode, step, observed(episode)) for episode in episodes]


@pytest.fixture
def actor(policy):
    return Actor(policy, seed=3, instruction="Go.")


def test_actions_do_not_depend_on_who_shares_the_batch(actor):
    alone = {each: actor.chunks(requests(each), MAX_STEPS)[0] for each in (2, 5, 7)}
    for group in ((2, 5, 7), (7, 2), (5, 8, 2, 9)):
        together = dict(zip(group, actor.chunks(requests(*group), MAX_STEPS), strict=True))
        for episode in alone.keys() & together.keys():
            assert torch.equal(together[episode], alone[episode])


def test_actions_are_the_same_again(actor, policy):
    (first,) = actor.chunks(requests(4, step=8), MAX_STEPS)
    actor.chunks(requests(1, 2, 3), MAX_STEPS)
    torch.rand(7)
    (again,) = actor.chunks(requests(4, step=8), MAX_STEPS)
    (other,) = Actor(policy, seed=3, instruction="Go.").chunks(requests(4, step=8), MAX_STEPS)
    assert torch.equal(first, again) and torch.equal(first, other)


def test_with_use_amp_actions_are_predicted_in_bf16(actor, policy, monkeypatch):
    (expected,) = actor.chunks(requests(4), MAX_STEPS)
    monkeypatch.setattr(policy, "config", replace(policy.config, use_amp=True))
    (found,) = actor.chunks(requests(4), MAX_STEPS)
    assert found.dtype == torch.float32 and not torch.equal(found, expected)
    assert torch.allclose(found, expected, atol=0.1)


def test_noise_is_that_of_seed_episode_and_step_alone(policy, monkeypatch):
    if policy.config.type != "diffusion":
        pytest.skip("it draws nothing")
    drawn = []
    draw = policy.network.draw_sampling

    def record(source: CounterSource):
        drawn.append(draw(source))
        return drawn[-1]

    monkeypatch.setattr(policy.network, "draw_sampling", record)
    noise = {}
    for seed in (3, 4):
        actor = Actor(policy, seed, instruction="Go.")
        for episode in (0, 1, ROWS_ON_CPU):
            for step in (0, 4):
                actor.chunks(requests(episode, step=step), MAX_STEPS)
                row = {name: each[actor.row_of(episode)] for name, each in drawn[-1].items()}
                noise[seed, episode, step] = torch.cat([each.flatten() for each in row.values()])
    values = [*noise.values()]
    alike = [(one, other) for one in values for other in values if torch.equal(one, other)]
    assert len(alike) == len(values) == 12


@pytest.mark.parametrize("episodes", [(3,), (9, 4, 2), (0, 1, 2, 3, 4, 5, 6, 15)])
def test_an_episode_has_the_same_row_of_a_batch_of_the_same_size(
    actor, policy, episodes, monkeypatch
):
    """Kernels differ by the size of a batch, and may by the row."""
    seen = []
    predict = policy.predict_action_chunk
    monkeypatch.setattr(
        policy, "predict_action_chunk", lambda *read: seen.append(read[0]) or predict(*read)
    )
    actor.chunks(requests(*episodes), MAX_STEPS)
    rows = {episode % ROWS_ON_CPU: observed(episode)[STATE] for episode in episodes}
    for row in range(ROWS_ON_CPU):
        states = seen[0][STATE][row].numpy()
        expected = rows.get(row, np.zeros((2, 4), np.float32))
        assert (states == (expected if states.ndim == 2 else expected[-1])).all()
    assert len(seen[0][STATE]) == len(seen[0]["task"]) == ROWS_ON_CPU


def test_chunks_come_in_the_order_of_requests_and_one_for_each(actor, policy):
    one, other = (actor.chunks(requests(each), MAX_STEPS)[0] for each in (6, 1))
    chunks = actor.chunks(requests(6, 1), MAX_STEPS)
    assert torch.equal(chunks[0], one) and torch.equal(chunks[1], other)
    assert one.shape[0] == 1 and one.shape[2] == 3
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("size", "rows"), [(96, 128), (320, 128), (480, 64), (1200, 16)])
def test_large_images_share_a_gpu_with_fewer_others(size, rows):
    shape = (3, size, size * 4 // 3)
    image = PolicyFeature(FeatureType.VISUAL, shape)
    config = ActConfig(input_features={f"observation.images.{name}": image for name in "ab"})
    assert rows_per_batch(config, torch.device("cuda")) == rows
    assert rows == 16 or rows * 2 * size * size * 4 // 3 <= PIXELS_ON_GPU
    assert rows_per_batch(config, torch.device("cpu")) == ROWS_ON_CPU
