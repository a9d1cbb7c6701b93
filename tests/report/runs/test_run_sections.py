"""Sections of a page about runs."""

import re
from pathlib import Path

import numpy as np
from page_runs import PageReader, write_everything, write_run

from manyhands.report.media import Allowance
from manyhands.report.runs.run_files import read_run_files
from manyhands.report.runs.run_sections import (
    NOTHING_MORE,
    ORDER,
    ReportExtras,
    header,
    media_sections,
    text_sections,
)
from manyhands.report.runs.training_frames import SeenFrame, TrainingFrames


def test_a_complete_run_fills_every_section_in_order(tmp_path: Path) -> None:
    runs = [read_run_files(write_everything(tmp_path))]
    anchors = [each.anchor for each in text_sections(runs, NOTHING_MORE)]
    expected = {*ORDER} - {"top", "summary", "rollouts", "frames"}
    assert {*anchors} == expected
    assert anchors == sorted(anchors, key=ORDER.index)
    media = [each.anchor for each in media_sections(runs, None, Allowance(10**9))]
    assert media == ["rollouts"]


def test_an_empty_run_says_that_nothing_was_logged(tmp_path: Path) -> None:
    sections = {
        each.anchor: each for each in text_sections([read_run_files(tmp_path)], NOTHING_MORE)
    }
    assert {*sections} == {"diagnosis", "learning"}
    assert "No metrics were logged." in sections["learning"].html


def test_the_header_says_what_where_and_how_it_ended(tmp_path: Path) -> None:
    runs = [read_run_files(write_run(tmp_path / "run"))]
    extras = ReportExtras(lead="In one minute.")
    text = PageReader(header(runs, "ACT on pusht", extras).html).text
    for words in ("ACT on pusht", "In one minute.", "finished", str(tmp_path), "seed 7", "400"):
        assert words in text


def test_commands_are_the_one_that_reproduces_and_the_one_that_was_typed(tmp_path: Path) -> None:
    extras = ReportExtras(next_commands=["manyhands eval --a=1", "manyhands train"])
    runs = [read_run_files(write_run(tmp_path))]
    (commands,) = (each for each in text_sections(runs, extras) if each.anchor == "commands")
    text = PageReader(commands.html).text
    assert text.index("Next steps") < text.index("Reproduce") < text.index("Started with")
    assert "manyhands eval --a=1 manyhands train" in text and "--config=/tmp/x" in text


def test_a_command_without_flags_is_not_worth_showing(tmp_path: Path) -> None:
    runs = [read_run_files(write_run(tmp_path, command=["manyhands", "train"]))]
    (commands,) = (each for each in text_sections(runs, NOTHING_MORE) if each.anchor == "commands")
    assert "Started with" not in commands.html


def test_compared_runs_share_charts_and_list_their_differences(tmp_path: Path) -> None:
    runs = [read_run_files(write_everything(tmp_path / name), name) for name in ("a", "b")]
    sections = {each.anchor: PageReader(each.html) for each in text_sections(runs, NOTHING_MORE)}
    loss = sections["learning"].charts[0]
    assert [line["name"] for line in loss["lines"]] == ["a", "b"]
    assert "All flags are the same." in sections["configuration"].text
    assert "a, step 400" in sections["success"].text and "Ranks: b" in sections["speed"].text
    assert "Episode 3: x (a, open_loop)" in sections["open-loop"].text
    assert sections["environment"].text.startswith("a ")
    (rollouts,) = media_sections(runs, None, Allowance(0))
    captions = re.findall(r"([ab]), step \d+, episode", PageReader(rollouts.html).text)
    assert captions == ["a", "b"] * 3


def test_training_frames_are_images_with_a_sentence(tmp_path: Path) -> None:
    seen = [SeenFrame("episode 3, frame 5", np.zeros((8, 8, 3), np.uint8))]
    frames = TrainingFrames("Not augmented.", {"observation.image": seen})
    (made,) = media_sections([read_run_files(tmp_path)], frames, Allowance(10**6))
    page = PageReader(made.html)
    assert len(page.tags("img")) == 1
    assert page.text == "observation.image episode 3, frame 5 Not augmented."
    (without,) = media_sections([read_run_files(tmp_path)], frames, Allowance(0))
    assert not PageReader(without.html).tags("img")
