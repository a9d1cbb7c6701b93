"""What the demo tells."""

import io
import json
import shlex
from pathlib import Path

import numpy as np
from filmed import film_of
from rich.console import Console

from manyhands.config.commands.demo import DemoConfig
from manyhands.demo.outcome import (
    Outcome,
    Scored,
    next_commands,
    show_results,
    write_evaluation,
    write_results,
)
from manyhands.demo.recipe import choose_recipe
from manyhands.evaluation.results_file import read_results
from manyhands.evaluation.rollout import EpisodeResult


def episode(seed: int, success: bool, num_frames: int = 0) -> EpisodeResult:
    frames = (np.zeros((16, 16, 3), np.uint8),) * num_frames
    rewards = (float(success), float(success))
    return EpisodeResult(seed, seed, success, *rewards, 9, film=film_of(frames))


OUTCOME = Outcome(
    before=Scored([episode(0, False), episode(1, False)], [episode(0, False, 3)], 2.0),
    after=Scored([episode(0, True), episode(1, True)], [episode(0, True, 30)], 2.0),
    wall_s=61.0,
)


def test_people_get_a_table_a_report_and_commands(tmp_path: Path):
    (tmp_path / "run").mkdir()
    file = io.StringIO()
    recipe = choose_recipe(DemoConfig(), num_gpus=0)
    show_results(OUTCOME, recipe, tmp_path, Console(file=file, width=200))
    text = file.getvalue()
    for words in ("untrained", "0%", "100%", "1 min 01 s", str(tmp_path / "run" / "report.html")):
        assert words in text
    for command in next_commands(tmp_path):
        assert command in text


def test_the_commands_that_lead_on_can_be_pasted():
    words = [word for command in next_commands(Path("my demo")) for word in shlex.split(command)]
    assert {"--resume=my demo/run", "--dataset.root=my demo/dataset"} <= {*words}


def test_both_evaluations_lie_in_the_run_with_their_videos(tmp_path: Path):
    write_evaluation(tmp_path / "trained", OUTCOME.after)
    saved = read_results(tmp_path / "trained")
    assert saved.results == OUTCOME.after.results and saved.env == {"type": "tray"}
    assert (tmp_path / "trained" / "videos" / "eval_episode_0.mp4").is_file()


def test_the_report_shows_both_evaluations(tmp_path: Path):
    (tmp_path / "run").mkdir()
    recipe = choose_recipe(DemoConfig(), num_gpus=0)
    show_results(OUTCOME, recipe, tmp_path, Console(file=io.StringIO()))
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<video") == 2 and page.index("trained, episode 0") < page.index(
        "untrained, episode 0"
    )
    assert "ACT learns to put a block into a tray" in page and "--steps=3000" in page


def test_programs_get_numbers(tmp_path: Path):
    write_results(tmp_path / "x" / "r.json", 5, OUTCOME)
    numbers = json.loads((tmp_path / "x" / "r.json").read_text())
    assert numbers["success_before"] == 0.0
    assert numbers["success_after"] == 1.0
    assert (numbers["num_episodes"], numbers["wall_s"], numbers["seed"]) == (2, 61.0, 5)
