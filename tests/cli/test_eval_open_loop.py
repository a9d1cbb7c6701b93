"""`manyhands eval --dataset.root`."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from manyhands.cli.eval import eval_command
from manyhands.cli.eval_open_loop import show_errors
from manyhands.cli.main import run_guarded
from manyhands.config.resolve import read_train_config
from manyhands.data.dataset import open_dataset
from manyhands.evaluation.action_errors import action_errors, added
from manyhands.evaluation.open_loop_run import OpenLoopEvaluation
from manyhands.training.start import run_training


def test_errors_are_printed_by_joint_and_by_time_ahead(tiny_dataset, tmp_path):
    recorded = np.zeros((3, 20, 2))
    predicted = recorded + np.array([1.0, 3.0])
    evaluation = OpenLoopEvaluation(
        policy_folder=Path("policy"),
        dataset=open_dataset(root=tiny_dataset, episodes=[1]),
        choice="as chosen",
        stride=4,
        seed=0,
        errors=added([action_errors(predicted, recorded, np.zeros((3, 20), bool))]),
        traces=[],
        output_dir=tmp_path,
    )
    text = io.StringIO()
    show_errors(evaluation, Console(file=text, width=100))
    lines = [" ".join(line.replace("│", " ").split()) for line in text.getvalue().splitlines()]
    assert {"action 0 1 1", "action 1 3 3", "all 2 2.236"} <= {*lines}
    assert [line.split()[0] for line in lines if line.endswith("2 2.236")][1:] == [
        "0",
        "4",
        "8",
        "11",
        "15",
        "19",
    ]
    assert "3 predictions in 1 episodes, as chosen" in lines


def test_the_command_writes_numbers_and_a_picture(command, tiny_dataset, tmp_path, capsys):
    run_training(read_train_config(command.argv(tmp_path / "run", "--steps=1")))
    capsys.readouterr()
    where = [f"--output_dir={tmp_path / 'out'}", f"--json={tmp_path / 'errors.json'}"]
    flags = [f"--policy.path={tmp_path / 'run'}", f"--dataset.root={tiny_dataset}"]
    assert run_guarded(eval_command, [*flags, "--policy.device=cpu", *where]) == 0
    assert "4 episodes, all of the dataset; the policy was trained" in capsys.readouterr().out
    document = json.loads((tmp_path / "errors.json").read_text())
    assert document["episodes"] == [0, 1, 2, 3]
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "open_loop.json",
        "open_loop_traces.json",
        "open_loop.png",
    }
    (tmp_path / "full" / ".open_loop.json.partial").mkdir(parents=True)
    where = [f"--output_dir={tmp_path / 'full'}", f"--json={tmp_path / 'again.json'}"]
    assert run_guarded(eval_command, [*flags, "--policy.device=cpu", *where]) == 2
    printed = capsys.readouterr()
    assert "4 episodes, all of the dataset" in printed.out
    assert f"{tmp_path / 'full'} cannot be written: Is a directory" in printed.err
    assert json.loads((tmp_path / "again.json").read_text()) == document
    elsewhere = [flags[0], f"--dataset.root={tmp_path}", "--policy.device=cpu"]
    assert run_guarded(eval_command, elsewhere) == 2
    assert f"{tmp_path} is not a LeRobot dataset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        ([], "no environment. Set --env.type=pusht, aloha, tray or gym; or"),
        (["--dataset.root={root}", "--env.type=tray"], "--env and --dataset exclude each other"),
        (["--env.type=tray", "--dataset.episodes=[1]"], "--dataset.episodes needs"),
        (["--env.type=tray", "--open_loop.stride=2"], "--open_loop needs --dataset.root"),
        (["--dataset.root={root}", "--eval.n_episodes=3"], "--eval is for episodes in simulation"),
        (["--dataset.root={root}", "--open_loop.stride=0"], "--open_loop.stride=0 must be at"),
        (["--dataset.root={root}", "--dataset.revision=v1"], "--dataset.revision is for the Hub"),
    ],
)
def test_a_usage_error_names_the_flag_and_leaves_with_two(tiny_dataset, flags, fault, capsys):
    named = [flag.format(root=tiny_dataset) for flag in flags]
    assert run_guarded(eval_command, ["--policy.path=somewhere/policy", *named]) == 2
    assert fault in capsys.readouterr().err
