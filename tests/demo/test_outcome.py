"""What the demo tells."""

import io
import json
import shlex
from pathlib import Path

import numpy as np
from rich.console import Console

from manyhands.config.commands import DemoConfig
from manyhands.demo.outcome import Outcome, filmstrips, next_commands, show_results, write_results
from manyhands.demo.recipe import choose_recipe
from manyhands.evaluation.rollout import EpisodeResult


def episode(seed: int, success: bool, num_frames: int = 0) -> EpisodeResult:
    frames = (np.zeros((16, 16, 3), np.uint8),) * num_frames
    rewards = (float(success), float(success))
    return EpisodeResult(seed, seed, success, *rewards, 9, frames=frames)


OUTCOME = Outcome(
    before=[episode(0, False, 3), episode(1, False)],
    after=[episode(0, True, 30), episode(1, True)],
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


def test_filmed_episodes_become_strips_of_the_same_length():
    strips = filmstrips(OUTCOME)
    assert [caption.split(":")[0] for caption, _ in strips] == [
        "untrained, episode 0",
        "trained, episode 0",
    ]
    assert [len(frames) for _, frames in strips] == [8, 8]


def test_programs_get_numbers(tmp_path: Path):
    write_results(tmp_path / "x" / "r.json", 5, OUTCOME)
    numbers = json.loads((tmp_path / "x" / "r.json").read_text())
    assert numbers["success_before"] == 0.0
    assert numbers["success_after"] == 1.0
    assert (numbers["num_episodes"], numbers["wall_s"], numbers["seed"]) == (2, 61.0, 5)
