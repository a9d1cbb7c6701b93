"""Texts are bounded."""

from manyhands.report.text import LONGEST, clipped


def test_a_short_text_is_itself_and_a_long_one_shows_that_it_goes_on() -> None:
    assert clipped("plain") == "plain"
    assert clipped(7) == "7"
    assert clipped("x" * 10_000) == "x" * (LONGEST - 1) + "…"
    assert clipped("abcdef", 3) == "ab…"
