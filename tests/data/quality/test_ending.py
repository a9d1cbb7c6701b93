"""Truncated episodes."""

import numpy as np

from manyhands.data.quality.ending import label_findings, length_findings, motion_findings
from manyhands.data.quality.episode_quality import Fault


def test_an_episode_without_the_label_of_the_others_is_truncated():
    is_set = np.ones(40, bool)
    is_set[7] = False
    found = dict(label_findings({"next.success": is_set, "next.done": is_set}))
    assert set(found) == {7}
    assert found[7].message == "ends without next.success, which 97.5 % of episodes end with"


def test_a_label_that_many_lack_says_nothing():
    assert not dict(label_findings({"next.success": np.arange(40) % 4 > 0}))
    assert not dict(label_findings({"next.done": np.zeros(40, bool)}))


def test_lengths_are_compared_within_a_task():
    lengths = np.array([100 + n for n in range(20)] + [20 + n % 3 for n in range(20)])
    lengths[3], lengths[30], lengths[12] = 20, 100, 400
    tasks = ["stack"] * 20 + ["push"] * 20
    found = dict(length_findings(lengths, tasks))
    assert {place: each.fault for place, each in found.items()} == {
        3: Fault.TRUNCATED,
        12: Fault.OUTLIER,
        30: Fault.OUTLIER,
    }
    assert not found[12].is_worth_excluding


def test_a_stop_in_motion_counts_where_others_end_at_rest():
    speeds = np.random.default_rng(0).uniform(0.0, 0.05, 30)
    speeds[11] = 1.2
    found = dict(motion_findings(speeds, np.full(30, 80), window=5))
    assert set(found) == {11} and found[11].frames == (75, 80)
    moving = np.random.default_rng(0).uniform(0.5, 1.5, 30)
    assert not dict(motion_findings(moving, np.full(30, 80), window=5))
    assert not dict(motion_findings(np.full(30, np.nan), np.full(30, 1), window=5))
