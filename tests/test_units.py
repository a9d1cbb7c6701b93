"""Numbers as people read them."""

import pytest

from manyhands import units


@pytest.mark.parametrize(
    ("number", "text"),
    [(950, "950"), (9500, "9,500"), (12_345, "12.3K"), (51_613_582, "51.6M"), (2.5e9, "2.5B")],
)
def test_counts(number, text):
    assert units.count(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(512, "512 B"), (1536, "1.5 KiB"), (3 * 1024**3, "3.0 GiB")]
)
def test_bytes(number, text):
    assert units.num_bytes(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (38.2, "38 s"),
        (59.7, "1 min 00 s"),
        (245, "4 min 05 s"),
        (11_520, "3 h 12 min"),
    ],
)
def test_durations(seconds, text):
    assert units.duration(seconds) == text
