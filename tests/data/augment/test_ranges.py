"""Uniform numbers as values of ranges."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.augment.ranges import (
    between,
    log_between,
    per_sample,
    pixel_grid,
    place_grid,
    whole_between,
)

LARGEST_UNIFORM = 1 - 2**-24


def test_a_range_is_met_from_end_to_end():
    uniform = torch.tensor([0.0, 0.5, 1.0])
    assert between((-2.0, 6.0), uniform).tolist() == [-2.0, 2.0, 6.0]
    torch.testing.assert_close(log_between((0.25, 4.0), uniform), torch.tensor([0.25, 1.0, 4.0]))


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0, LARGEST_UNIFORM, width=32))
def test_whole_numbers_stay_within_their_range(low, extent, uniform):
    value = whole_between((low, low + extent), torch.tensor([uniform])).item()
    assert low <= value <= low + extent
    assert value == int(value)


def test_each_whole_number_is_as_likely_as_the_others():
    uniform = (torch.arange(400) + 0.5) / 400
    assert whole_between((3, 6), uniform).unique(return_counts=True)[1].tolist() == [100] * 4


def test_grids_name_every_pixel():
    pictures = torch.zeros(2, 1, 3, 2, 4)
    columns, rows = pixel_grid(pictures)
    assert columns.flatten().tolist() == [0, 1, 2, 3]
    assert rows.flatten().tolist() == [0, 1]
    across, down = place_grid(pictures)
    assert across.flatten().tolist() == [0.125, 0.375, 0.625, 0.875]
    assert down.flatten().tolist() == [0.25, 0.75]
    assert (columns + rows + per_sample(torch.ones(2)) + pictures).shape == pictures.shape
