"""A bar on a terminal, lines elsewhere."""

import io
import os
import subprocess
import sys
import time

import pytest
from logged_metrics import METRICS
from rich.console import Console

from manyhands.observe.console import REFRESH_S, Display


def shown(is_terminal: bool) -> str:
    file = io.StringIO()
    display = Display(100, 0, Console(file=file, force_terminal=is_terminal, width=160))
    with display:
        display.print_line("hello")
        display.advance(40)
        display.measure(40, METRICS)
    return file.getvalue()


def test_plain_output_holds_the_measures_and_no_control_codes():
    text = shown(is_terminal=False)
    assert "\x1b" not in text
    line = "step 40/100  loss 1.5  lr 1e-05  grad 3.25  120 samples/s  data wait 25%  ETA 30 s"
    assert text.splitlines() == ["hello", line]


def test_a_terminal_sees_a_bar_with_the_measures():
    text = shown(is_terminal=True)
    assert "40/100" in text
    assert "loss 1.5" in text
    assert "ETA" in text


@pytest.mark.parametrize("start", [0, 20])
def test_the_first_step_has_no_speed_from_which_an_eta_would_follow(start):
    display = Display(100, start, Console(file=io.StringIO(), force_terminal=True, width=160))
    slow = {**METRICS, "step_s": 60.0, "samples_per_s": 0.1}
    first = display.measure(start + 1, slow)
    display.refresh(slow)
    assert "loss 1.5" in first and "ETA" not in first and "samples/s" not in first
    display.advance(start + 2)
    display.refresh(METRICS)
    assert "120 samples/s" in display._line.texts(160)
    assert "ETA 30 s" in display.measure(40, METRICS)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_long_line_on_a_terminal_breaks_between_words(width):
    file = io.StringIO()
    plain = {"highlight": False, "color_system": None, "soft_wrap": True}
    console = Console(file=file, force_terminal=True, width=width, **plain)
    text = "Stopping after this step, then saving (about 1 s). Press Ctrl-C again to quit. " * 2
    Display(100, 0, console).print_line(text)
    lines = file.getvalue().splitlines()
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width for line in lines)


def test_a_terminal_wants_metrics_once_a_second():
    display = Display(100, 0, Console(file=io.StringIO(), force_terminal=True))
    assert display.wants_metrics
    display.refresh(METRICS)
    assert not display.wants_metrics
    time.sleep(REFRESH_S)
    assert display.wants_metrics


def test_a_log_file_wants_no_metrics_between_rows():
    assert not Display(100, 0, Console(file=io.StringIO())).wants_metrics


TELLING = """
from manyhands.observe.console import Display

with Display(100, 0) as display:
    display.print_line("hello")
    input()
    display.advance(40)
    display.print_line("anybody?")
"""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nobody_needs_to_read_what_a_run_says(is_terminal):
    reader, writer = os.openpty() if is_terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING],
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    os.close(writer)
    said = b""
    while b"hello" not in said:
        said += os.read(reader, 1000)
    os.close(reader)
    _, complaints = process.communicate("\n", timeout=60)
    assert (process.returncode, complaints) == (0, "")
