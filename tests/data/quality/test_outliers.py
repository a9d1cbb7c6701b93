"""Values beyond what other episodes reach."""

import numpy as np

from manyhands.data.quality.outliers import overshoots


def extremes(number=30):
    chance = np.random.default_rng(0)
    return chance.uniform(0, 10, (number, 2)), chance.uniform(90, 100, (number, 2))


def test_an_overshoot_is_in_widths_of_what_others_reach():
    low, high = extremes()
    high[4, 1] = 300
    low[8, 0] = -150
    found = overshoots(low, high)
    assert {tuple(place) for place in np.argwhere(found > 0.5).tolist()} == {(4, 1), (8, 0)}
    assert 1.9 < found[4, 1] < 2.3


def test_constant_joints_and_unknown_extremes_have_no_outliers():
    low, high = extremes()
    low[:, 0] = high[:, 0] = 5.0
    high[3, 0] = 5.1
    low[5] = high[5] = np.nan
    assert not overshoots(low, high).any()
