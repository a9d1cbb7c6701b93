"""A camera, and how thoroughly it is looked at."""

from manyhands.data.checking.cameras import Camera
from manyhands.lerobot_format.dataset.info import Feature

FEATURE = Feature("video", (480, 640, 3))


def test_a_quick_look_costs_the_same_however_long_a_file_is():
    quick, full = (Camera("top", FEATURE, 30, is_full) for is_full in (False, True))
    assert quick.cost_s(100) == quick.cost_s(100_000)
    assert full.cost_s(100_000) == 1000 * full.cost_s(100)


def test_large_pictures_cost_more():
    small = Camera("top", Feature("video", (96, 96, 3)), 30, is_full=True)
    assert Camera("top", FEATURE, 30, is_full=True).cost_s(10) > 5 * small.cost_s(10)
