"""Colors: values worked out by hand, and the standard library's color circle."""

import colorsys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.augment.color import (
    ColorJitter,
    GammaCorrection,
    brightened,
    contrasted,
    hue_shifted,
    saturated,
)

RED, BLUE, BLACK, WHITE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
LEVEL = st.floats(0, 1, width=32)


@pytest.mark.parametrize(
    ("change", "by", "before", "after"),
    [
        (brightened, 1.5, [(0.2, 0.4, 0.8)], [(0.3, 0.6, 1.0)]),
        (brightened, 0.0, [(0.2, 0.4, 0.8)], [BLACK]),
        (contrasted, 0.5, [WHITE, BLACK], [(0.75,) * 3, (0.25,) * 3]),
        (contrasted, 2.0, [(0.6,) * 3, (0.4,) * 3], [(0.7,) * 3, (0.3,) * 3]),
        (contrasted, 9.0, [WHITE, BLACK], [WHITE, BLACK]),
        # The grays of red and blue are 0.299 and 0.114, their mean 0.2065.
        (contrasted, 0.5, [RED, BLUE], [(0.60325, 0.10325, 0.10325), (0.10325, 0.10325, 0.60325)]),
        (saturated, 0.0, [RED, BLUE, WHITE], [(0.299,) * 3, (0.114,) * 3, WHITE]),
        (saturated, 0.5, [RED], [(0.6495, 0.1495, 0.1495)]),
        (saturated, 2.0, [(0.5, 0.4, 0.4)], [(0.5701, 0.3701, 0.3701)]),
        (hue_shifted, 1 / 3, [RED, BLUE, WHITE], [(0.0, 1.0, 0.0), RED, WHITE]),
        (hue_shifted, 0.5, [RED, (0.2, 0.4, 0.8)], [(0.0, 1.0, 1.0), (0.8, 0.6, 0.2)]),
        (hue_shifted, -1 / 6, [RED, (0.5, 0.3, 0.3)], [(1.0, 0.0, 1.0), (0.5, 0.3, 0.5)]),
    ],
)
def test_colors_change_as_worked_out_by_hand(pixels, colors, change, by, before, after):
    result = colors(change(pixels(*before), torch.tensor([by])))
    for seen, expected in zip(result, after, strict=True):
        assert seen == pytest.approx(expected, abs=1e-6)


@given(st.tuples(LEVEL, LEVEL, LEVEL), st.floats(-0.5, 0.5, width=32))
def test_hue_turns_as_the_standard_library_turns_it(color, turn):
    hue, saturation, value = colorsys.rgb_to_hsv(*color)
    expected = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
    seen = hue_shifted(torch.tensor(color).view(1, 1, 3, 1, 1), torch.tensor([turn]))
    assert seen.flatten().tolist() == pytest.approx(expected, abs=1e-4)


def test_contrast_looks_at_each_frame_alone(pictures):
    half = torch.full((4,), 0.5)
    alone = [contrasted(pictures[:, number : number + 1], half) for number in range(2)]
    assert torch.equal(contrasted(pictures, half), torch.cat(alone, dim=1))


@pytest.mark.parametrize(
    ("change", "neutral"), [(brightened, 1), (contrasted, 1), (saturated, 1), (hue_shifted, 0)]
)
def test_neutral_values_change_nothing(pictures, change, neutral):
    torch.testing.assert_close(change(pictures, torch.full((4,), float(neutral))), pictures)


def test_a_jitter_applies_what_it_names_in_order(pictures):
    jitter = ColorJitter(brightness=(0.5, 1.5), hue=(-0.1, 0.3))
    uniforms = torch.tensor([[0.0, 9.0, 9.0, 1.0]]).expand(4, -1)
    expected = hue_shifted(brightened(pictures, torch.full((4,), 0.5)), torch.full((4,), 0.3))
    torch.testing.assert_close(jitter(pictures, uniforms), expected)


def test_gamma_is_a_power_drawn_evenly_between_half_and_twice(pixels, colors):
    gamma = GammaCorrection(gamma=(0.5, 2.0))
    middle = pixels((0.0, 0.25, 1.0))
    seen = [colors(gamma(middle, torch.tensor([[uniform]])))[0][1] for uniform in (0.0, 0.5, 1.0)]
    assert seen == pytest.approx([0.5, 0.25, 0.0625])
    assert colors(gamma(middle, torch.tensor([[0.0]])))[0][::2] == [0.0, 1.0]
