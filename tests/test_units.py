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
        (86_399, "23 h 59 min"),
        (200_000, "2 d 07 h"),
    ],
)
def test_durations(seconds, text):
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("123", 123),
        ("7B", 7),
        ("500MB", 500_000_000),
        ("16GiB", 16 * 1024**3),
        ("16 gib", 16 * 1024**3),
        (" 1.5TB ", 1_500_000_000_000),
        ("0.5KiB", 512),
        ("4G", 4 * 1024**3),
        ("2Gi", 2 * 1024**3),
        ("0.1kB", 100),
    ],
)
def test_sizes_are_understood(text, number):
    assert units.parse_bytes(text) == number


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "1e9", "16 G B", "3iB", "5PB", "nan", "1,5GB"]
)
def test_other_texts_are_no_sizes(text):
    with pytest.raises(ValueError, match=r"is not a size\. Write it like 16GiB, 500MB or 0"):
        units.parse_bytes(text)
