"""Holes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.augment.corruption import CoarseDropout, covered

UNIFORM = st.floats(0, 1 - 2**-24, width=32)


@given(st.integers(1, 60), UNIFORM, UNIFORM)
def test_a_hole_covers_a_pixel_at_least_and_lies_inside(size, part, start):
    pixels = torch.arange(size, dtype=torch.float32)
    inside = covered(pixels, size, torch.tensor(part), torch.tensor(start))
    assert inside.sum() == max(1, torch.tensor(part * size).ceil())
    assert inside.int().diff().abs().sum() <= 2


def test_holes_have_their_place_size_and_color():
    dropout = CoarseDropout(max_holes=1, max_height_frac=0.5, max_width_frac=0.25, fill_value=1.0)
    black = torch.zeros(2, 1, 3, 8, 8)
    # How many, then left, width, top and height of the hole.
    uniforms = torch.tensor([[0.0, 0.0, 0.99, 0.99, 0.99], [0.0, 0.5, 0.99, 0.5, 0.5]])
    seen = dropout(black, uniforms)[:, 0, 1]
    expected = torch.zeros(2, 8, 8)
    expected[0, 4:, :2] = 1
    expected[1, 3:5, 3:5] = 1
    assert torch.equal(seen, expected)


def test_as_many_holes_appear_as_were_drawn():
    dropout = CoarseDropout(max_holes=3, max_height_frac=0.01, max_width_frac=0.01, fill_value=0.0)
    assert dropout.num_uniforms == 13
    holes = torch.tensor([0.1, 0, 0.1, 0, 0.5, 0, 0.5, 0, 0.9, 0, 0.9, 0])
    uniforms = torch.stack([torch.cat([torch.tensor([each]), holes]) for each in (0.0, 0.5, 0.9)])
    seen = dropout(torch.ones(3, 1, 3, 9, 9), uniforms)
    assert (seen[:, 0, 0] == 0).sum(dim=(1, 2)).tolist() == [1, 2, 3]
