"""An open-loop evaluation from its flags to its files."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from manyhands.config.commands.eval import EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.open_loop import EvaluatedDatasetConfig, OpenLoopConfig
from manyhands.evaluation.open_loop_run import run_open_loop
from manyhands.policies.load import load_policy
from manyhands.training.start import run_training


@pytest.fixture(scope="module")
def run_dir(command, tmp_path_factory):
    """A tiny run that held out two of four episodes."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    run_training(read_train_config(command.argv(folder, "--steps=1", "--dataset.eval_split=0.3")))
    return folder


@pytest.fixture
def config(run_dir, tiny_dataset, tmp_path):
    """Flags of an evaluation on the dataset of the run."""
    return EvalCommandConfig(
        policy=EvaluatedPolicyConfig(path=str(run_dir), device="cpu"),
        dataset=EvaluatedDatasetConfig(root=tiny_dataset),
        output_dir=tmp_path / "out",
    )


def test_held_out_episodes_are_predicted_once_per_executed_chunk(config, run_dir, open_for):
    found = run_open_loop(config)
    policy = load_policy(run_dir)
    stride = policy.config.num_executed_actions
    assert found.choice == "held out of training"
    assert found.dataset.episodes.tolist() == [2, 3]
    assert (found.stride, found.errors.num_samples) == (
        stride,
        sum(-(-length // stride) for length in (7, 11)),
    )
    document = json.loads((config.output_dir / "open_loop.json").read_text())
    assert document == found.document()
    assert [row["name"] for row in document["joints"]] == ["action 0", "action 1"]


def test_traces_are_what_was_recorded_and_what_would_be_executed(config):
    found = run_open_loop(replace(config, open_loop=OpenLoopConfig(stride=2)))
    assert [trace.episode for trace in found.traces] == [2, 3]
    first = found.traces[0]
    frames = np.arange(*found.dataset.frame_bounds[0])
    assert np.array_equal(first.recorded, found.dataset.column_values("action", frames))
    assert list(first.chunks) == [0, 2, 4, 6]
    assert first.chunks[6].shape == (1, 2)
    written = json.loads((config.output_dir / "open_loop_traces.json").read_text())
    assert written == found.traces_document()
    (traced, *_), joints = written["episodes"], written["joints"]
    assert (traced["episode"], traced["recorded"]) == (2, first.recorded.tolist())
    assert [chunk["first"] for chunk in traced["chunks"]] == [0, 2, 4, 6] and len(joints) == 2


def test_a_limit_spreads_predictions(config):
    found = run_open_loop(
        replace(config, open_loop=OpenLoopConfig(stride=1, max_samples=6)),
    )
    assert found.errors.num_samples == 6
    assert [list(trace.chunks) for trace in found.traces] == [[0, 3, 6], [2, 5, 8]]


@pytest.mark.process
def test_two_processes_write_the_same_numbers(config, command, run_dir, tiny_dataset, tmp_path):
    flags = [
        f"--policy.path={run_dir}",
        f"--dataset.root={tiny_dataset}",
        "--policy.device=cpu",
        "--open_loop.stride=1",
    ]
    program = [sys.executable, "-m", "manyhands", "eval", *flags]
    for number in (1, 2):
        where = [f"--output_dir={tmp_path / str(number)}", f"--launch.num_processes={number}"]
        printed = command.run([*program, *where, f"--json={tmp_path / f'{number}.json'}"])
        assert "18 predictions in 2 episodes, held out of training" in printed
    one, two = ((tmp_path / f"{number}.json").read_bytes() for number in (1, 2))
    assert one == two == (tmp_path / "2" / "open_loop.json").read_bytes()
    assert (tmp_path / "2" / "open_loop.png").is_file()
