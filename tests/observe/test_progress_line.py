"""The progress of a run on one line."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged_metrics import METRICS
from rich.console import Console

from manyhands.observe.progress_line import ProgressLine, metrics_line

WIDTHS = (60, 80, 100, 200)


def shown(line: ProgressLine, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system=None).print(line)
    return [text.rstrip() for text in file.getvalue().splitlines()]


@pytest.mark.parametrize("width", WIDTHS)
@given(
    step=st.integers(0, 9_999_999),
    loss=st.floats(1e-9, 1e9),
    rate=st.floats(0.1, 99_999),
    step_s=st.floats(1e-4, 10),
)
def test_step_loss_speed_and_time_left_are_there_at_any_width(width, step, loss, rate, step_s):
    metrics = METRICS | {"loss": loss, "samples_per_s": rate, "step_s": step_s}
    (text,) = shown(ProgressLine(9_999_999, step, metrics), width)
    assert f"{step}/9999999" in text
    assert f"loss {loss:.4g}" in text
    assert "/s  " in text and "ETA " in text
    assert len(text) < width and "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
@given(step=st.integers(0, 200_000), loss=st.floats(1e-3, 99), rate=st.floats(0.1, 9_999))
def test_a_ctrl_c_that_a_terminal_prints_at_its_end_begins_no_other_line(width, step, loss, rate):
    metrics = METRICS | {"loss": loss, "samples_per_s": rate}
    (text,) = shown(ProgressLine(200_000, step, metrics), width)
    assert len(f"{text}^C" if width == 60 else f"{text}^C^C") < width


def test_a_wider_terminal_shows_more():
    texts = [len(ProgressLine(100, 40, METRICS).texts(width)) for width in WIDTHS]
    assert texts == sorted(texts)
    assert texts[0] == 4 and texts[-1] == 7


def test_there_is_a_line_before_the_first_metrics():
    assert shown(ProgressLine(100, 0), 80) == ["step 0/100"]


def test_the_held_out_loss_is_shown_where_it_was_measured():
    assert "held-out" not in metrics_line(METRICS)
    held_out = METRICS | {"held_out_loss": 0.25}
    assert "held-out loss 0.25  lr" in metrics_line(held_out)
    both = metrics_line(held_out | {"open_loop_error": 1.5})
    assert "held-out loss 0.25  open-loop error 1.5  lr" in both
