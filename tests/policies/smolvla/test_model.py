"""SmolVLA's tensors and what they compute."""

import math

import pytest
import torch

from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.policies.smolvla.model import pad_vector, time_embedding

NOISY, TIME = torch.ones(3, 5, 6), torch.tensor([0.1, 0.5, 0.9])


def velocity_of(model, batch):
    with torch.no_grad():
        return model.velocity(NOISY, TIME, model.memory(batch))


def test_the_prefix_is_cameras_words_and_the_state(tiny):
    model, batch = tiny.network().model, tiny.batch()
    with torch.no_grad():
        prefix = model.prefix(batch)
    # An image of 32 pixels has 16 patches, 4 of which make a token.
    assert prefix.tokens.shape == (3, 4 + 4 + 7, 48)
    assert prefix.is_valid[:, :8].all() and prefix.is_valid[:, -1].all()
    assert torch.equal(prefix.is_valid[:, 8:15], batch[LANGUAGE_MASK])
    words = model.vlm_with_expert.word_tokens(batch[LANGUAGE_TOKENS]) * math.sqrt(48)
    assert torch.equal(prefix.tokens[:, 8:], words)
    state = model.state_proj(pad_vector(batch["observation.state"], 8))
    assert torch.equal(prefix.state[:, 0], state)


@pytest.mark.parametrize(("exact", "length"), [(True, 24), (False, 16)])
def test_a_longer_prefix_changes_nothing(tiny, exact, length):
    batch = tiny.batch()
    expected = velocity_of(tiny.network(exact=exact).model, batch)
    longer = tiny.network(exact=exact, prefix_length=24).model
    assert longer.memory(batch).seen[0].keys.shape[2] == length
    torch.testing.assert_close(velocity_of(longer, batch), expected, rtol=0, atol=1e-5)


def test_marks_stand_around_images_unscaled(tiny):
    model, batch = tiny.network(add_image_special_tokens=True).model, tiny.batch()
    prefix = model.prefix(batch)
    around, whole = model.vlm_with_expert.word_tokens(torch.tensor([260, 259]))
    assert prefix.tokens.shape[1] == 2 * (4 + 3) + 7
    for place, mark in {0: around, 1: whole, 6: around, 7: around, 8: whole, 13: around}.items():
        assert torch.equal(prefix.tokens[0, place], mark)


def test_the_marks_are_not_saved(tiny):
    assert "image_marks" not in tiny.network().model.state_dict()


def test_a_masked_camera_is_not_seen(tiny):
    model, batch, name = tiny.network().model, tiny.batch(), tiny.cameras[0]
    mask = {f"{name}_padding_mask": torch.zeros(3, dtype=torch.bool)}
    others = {name: torch.rand(3, 3, 24, 40)}
    found = velocity_of(model, batch | mask | others)
    assert torch.equal(found, velocity_of(model, batch | mask))
    assert not torch.isclose(found, velocity_of(model, batch)).all()


def test_an_empty_camera_is_not_seen(tiny):
    batch = tiny.batch()
    expected = velocity_of(tiny.network().model, batch)
    found = velocity_of(tiny.network(empty_cameras=1).model, batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_missing_camera_makes_the_prefix_shorter(tiny):
    batch = tiny.batch()
    del batch[tiny.cameras[0]]
    assert tiny.network().model.prefix(batch).tokens.shape[1] == 4 + 7


def test_vectors_are_filled_up_with_zeros():
    assert pad_vector(torch.ones(1, 2), 4).tolist() == [[1, 1, 0, 0]]


def test_times_are_told_by_waves_of_all_periods(tiny):
    config = tiny.config(min_period=4e-3, max_period=4.0)
    code = time_embedding(torch.tensor([0.25], dtype=torch.float64), 8, config)[0]
    periods = [0.004 * 1000 ** (place / 3) for place in range(4)]
    angles = [2 * math.pi * 0.25 / period for period in periods]
    waves = [*map(math.sin, angles), *map(math.cos, angles)]
    assert code.tolist() == pytest.approx(waves, abs=1e-9)
    slower = tiny.config(min_period=8e-3, max_period=8.0)
    assert torch.equal(time_embedding(torch.tensor([0.5]).double(), 8, slower)[0], code)


@pytest.mark.parametrize("changes", [{}, {"load_vlm_weights": True}], ids=str)
def test_ways_in_and_out_are_in_full_precision(tiny, changes):
    model = tiny.network(**changes).model
    heads = [each for name, each in model.named_parameters() if not name.startswith("vlm_")]
    assert len(heads) == 10
    assert {each.dtype for each in heads} == {torch.float32}
    assert velocity_of(model, tiny.batch()).dtype is torch.float32
