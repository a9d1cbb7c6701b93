"""Color temperature."""

import pytest
import torch

from manyhands.data.augment.color import (
    PlanckianJitter,
    apply_temperature,
    channel_gains,
    chromaticity,
)


@pytest.mark.parametrize(
    ("kelvin", "x", "y"),
    [
        (3000, 0.4369, 0.4041),
        (4000, 0.3805, 0.3768),
        (6500, 0.3135, 0.3237),
        (10000, 0.2807, 0.2884),
    ],
)
def test_black_bodies_lie_where_tables_of_the_locus_say(kelvin, x, y):
    seen = [each.item() for each in chromaticity(torch.tensor([float(kelvin)]))]
    assert seen == pytest.approx([x, y], abs=1e-3)


def test_neutral_light_changes_nothing(pictures):
    torch.testing.assert_close(apply_temperature(pictures, torch.full((4,), 6500.0)), pictures)


def test_hotter_light_has_less_red_and_more_blue():
    gains = channel_gains(torch.linspace(3000, 15_000, 40))
    assert (gains[:, 1] == 1).all()
    assert (gains[:, 0].diff() < 0).all()
    assert (gains[:, 2].diff() > 0).all()


def test_the_jitter_runs_from_orange_to_blue(pixels, colors):
    jitter = PlanckianJitter(temperature=(3000.0, 15_000.0))
    gray = pixels((0.5, 0.5, 0.5))
    warm, cold = (colors(jitter(gray, torch.tensor([[end]])))[0] for end in (0.0, 1.0))
    assert warm[0] > 0.6 and warm[1] == 0.5 and warm[2] < 0.35
    assert cold[0] < 0.48 and cold[1] == 0.5 and cold[2] > 0.6
