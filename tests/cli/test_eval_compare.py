"""`manyhands eval --compare` of finished evaluations."""

import json

import pytest

from manyhands.cli.eval import eval_command
from manyhands.cli.main import run_guarded
from manyhands.evaluation.eval_info import as_json, eval_info
from manyhands.evaluation.rollout import EpisodeResult


def results(num_successes, num_episodes=40):
    return [
        EpisodeResult(place, 1000 + place, place < num_successes, 1.0, 0.5, 9)
        for place in range(num_episodes)
    ]


@pytest.fixture
def saved(tmp_path):
    """A folder and a file with results of two policies on the same seeds."""
    (tmp_path / "a").mkdir()
    info = eval_info(results(10), "tray", 1.0, {})
    (tmp_path / "a" / "eval_info.json").write_text(json.dumps(info))
    (tmp_path / "b.json").write_text(
        json.dumps({"env": {"type": "tray"}} | as_json(results(30), 1))
    )
    return [str(tmp_path / "a"), str(tmp_path / "b.json")]


def test_the_better_one_is_named_and_disagreements_are_written(saved, tmp_path, capsys):
    assert eval_command(["--compare", *saved, f"--json={tmp_path / 'out.json'}"]) == 0
    printed = capsys.readouterr().out
    assert "B succeeds more often: 75 % against 25 %, p = 1.9e-06." in printed
    assert "+50.0%" in printed
    document = json.loads((tmp_path / "out.json").read_text())
    assert [row["seed"] for row in document["disagreements"]] == list(range(1010, 1030))
    assert document["verdict"] in printed


def test_crashed_episodes_are_mentioned(saved, tmp_path, capsys):
    document = json.loads((tmp_path / "b.json").read_text())
    document["episodes"][0]["error"] = "segmentation fault"
    (tmp_path / "b.json").write_text(json.dumps(document))
    assert eval_command([f"--compare=[{saved[0]},{saved[1]}]"]) == 0
    assert "1 episodes crashed and count as failures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--compare", "{a}"], "must name two, as --compare A B"),
        (["--compare", "{a}", "{b}", "--env.type=tray"], "--env has no effect"),
        (["--compare", "{a}", "nowhere", "--env.type=tray"], "a has results, the other one has"),
        (["--compare", "x", "y"], "no environment. Set --env.type"),
        (["--compare", "{a}", "{b}", "--policy.path=x"], "--policy.path=x has no effect"),
        (["--compare", "x", "y", "--dataset.root=z"], "--compare is for episodes in simulation"),
    ],
)
def test_a_usage_error_names_the_flag_and_leaves_with_two(saved, flags, fault, capsys):
    named = [flag.format(a=saved[0], b=saved[1]) for flag in flags]
    assert run_guarded(eval_command, named) == 2
    assert fault in capsys.readouterr().err


def test_a_comparison_that_cannot_be_written_is_reported_first(saved, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "out.json"
    # What a file is written to before it gets its name.
    (out / ".comparison.json.partial").mkdir(parents=True)
    flags = ["--compare", *saved, f"--json={file}", f"--output_dir={out}"]
    assert run_guarded(eval_command, flags) == 2
    printed = capsys.readouterr()
    assert "B succeeds more often" in printed.out and f"results: {out}" not in printed.out
    assert json.loads(file.read_text())["verdict"] in printed.out
    assert printed.err == (
        f"manyhands: {out} cannot be written: Is a directory. Set another --output_dir\n"
    )
