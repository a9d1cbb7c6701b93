"""The picture of an open-loop evaluation."""

import sys
from pathlib import Path

import numpy as np
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.evaluation.action_errors import action_errors, added
from manyhands.evaluation.open_loop_run import OpenLoopEvaluation, Trace
from manyhands.report.runs.open_loop_plot import NEEDS_EXTRA, write_open_loop_plot


@pytest.fixture
def evaluation(tiny_dataset, tmp_path):
    """Errors of two joints, and two episodes of which one has no chunk."""
    random = np.random.default_rng(0)
    predicted, recorded = random.normal(size=(2, 6, 4, 2))
    chunks = {0: predicted[0], 4: predicted[1], 8: predicted[2, :1]}
    return OpenLoopEvaluation(
        policy_folder=Path("policy"),
        dataset=open_dataset(root=tiny_dataset),
        choice="all",
        stride=4,
        seed=0,
        errors=added([action_errors(predicted, recorded, np.zeros((6, 4), bool))]),
        traces=[Trace(0, random.normal(size=(9, 2)), chunks)],
        output_dir=tmp_path,
    )


def png_size(file: Path) -> tuple[int, int]:
    header = file.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")


def test_there_is_a_row_of_curves_per_joint_and_one_of_errors(evaluation, tmp_path):
    assert write_open_loop_plot(tmp_path / "open_loop.png", evaluation) is None
    assert png_size(tmp_path / "open_loop.png") == (700, 610)


def test_without_curves_the_errors_are_drawn(evaluation, tmp_path):
    evaluation.traces.clear()
    assert write_open_loop_plot(tmp_path / "open_loop.png", evaluation) is None
    assert png_size(tmp_path / "open_loop.png")[0] == 700


def test_without_matplotlib_the_install_command_is_named(evaluation, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert write_open_loop_plot(tmp_path / "open_loop.png", evaluation) == NEEDS_EXTRA
    assert not (tmp_path / "open_loop.png").exists()
