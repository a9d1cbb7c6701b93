"""Words of a diagnosis."""

import pytest

from manyhands.observe.diagnosis.advice import Diagnosis, milliseconds, speed_up, utilization_band


@pytest.mark.parametrize(
    ("utilization", "band"),
    [(1.0, "good"), (0.8, "good"), (0.79, "fair"), (0.5, "fair"), (0.49, "poor"), (0.0, "poor")],
)
def test_the_bands_of_utilization(utilization, band):
    assert utilization_band(utilization) == band


def test_a_speed_up_is_that_of_time_that_is_saved():
    assert speed_up(0.44) == "up to 1.8x"
    assert speed_up(1.0) == "up to 100.0x"


def test_a_diagnosis_is_one_line():
    found = Diagnosis("kind", "note", "It is slow", "Set --flag=1", "up to 2.0x")
    assert str(found) == "NOTE: It is slow. Set --flag=1 (up to 2.0x)"


def test_short_times_are_short_texts():
    assert [milliseconds(each) for each in (0.00342, 0.0684, 1.2)] == [
        "3.4 ms",
        "68 ms",
        "1,200 ms",
    ]
