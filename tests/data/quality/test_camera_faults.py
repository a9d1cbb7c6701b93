"""Frozen, dark and overexposed cameras."""

import numpy as np
import pytest

from manyhands.data.quality.camera_faults import CameraRun, judge_cameras
from manyhands.data.quality.camera_samples import CameraSamples
from manyhands.data.quality.episode_quality import Fault

FRAMES = np.arange(0, 60, 3)


def run(changes=50.0, motions=3.0, light=120.0, spread=100.0):
    number = len(FRAMES)
    samples = CameraSamples(
        "top",
        0,
        FRAMES,
        np.full(number, light),
        np.full(number, light - spread / 2),
        np.full(number, light + spread / 2),
        np.broadcast_to(changes, number - 1).astype(float),
    )
    return CameraRun(samples, np.broadcast_to(motions, number - 1).astype(float))


def faults(*others, number=12):
    runs = [*[run()] * number, *others]
    judged = judge_cameras({"top": dict(enumerate(runs))}, fps=10)
    return {place: findings for place, _, findings in judged if findings}


def stopped(first, end, values, otherwise):
    marks = np.zeros(len(FRAMES) - 1, bool)
    marks[first:end] = True
    return np.where(marks, values, otherwise)


def test_an_unchanged_image_is_frozen_while_the_robot_moves():
    found = faults(run(changes=stopped(4, 9, 1.0, 50.0)))
    assert set(found) == {12} and found[12][0].fault == Fault.FROZEN
    assert found[12][0].frames == (12, 28) and found[12][0].value == pytest.approx(1.5)


def test_an_unchanged_image_is_fine_while_the_robot_rests():
    still = run(changes=stopped(4, 9, 1.0, 50.0), motions=stopped(4, 9, 0.01, 3.0))
    assert not faults(still)
    assert not faults(run(changes=stopped(4, 5, 1.0, 50.0)))


def test_a_camera_that_never_shows_the_robot_cannot_freeze():
    blind = dict(enumerate([run(changes=2.0)] * 12 + [run(changes=0.0)]))
    judged = [*judge_cameras({"top": blind}, fps=10)]
    assert not any(findings for *_, findings in judged)
    assert {quality.frozen_share for _, quality, _ in judged} == {None}


def test_light_is_judged_by_what_can_be_seen_and_what_is_usual():
    found = faults(
        run(light=8.0, spread=10.0), run(light=250.0, spread=4.0), run(light=40.0), run(light=95.0)
    )
    assert {place: findings[0].fault for place, findings in found.items()} == {
        12: Fault.DARK,
        13: Fault.OVEREXPOSED,
        14: Fault.DARK,
    }
    assert "nothing can be seen" in found[12][0].message


def test_a_single_episode_is_judged_by_itself():
    alone = {0: run(changes=0.0, light=5.0, spread=4.0)}
    ((_, _, findings),) = judge_cameras({"top": alone}, fps=10)
    assert [each.fault for each in findings] == [Fault.DARK]
