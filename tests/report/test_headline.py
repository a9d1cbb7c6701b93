"""The first numbers a reader sees."""

from typing import Any

import numpy as np
import pytest

from manyhands.report.facts import Tile, key_numbers, run_title
from manyhands.report.metrics import Series


def series(*values: float) -> Series:
    return Series(np.arange(1.0, len(values) + 1) * 100, np.array(values))


@pytest.mark.parametrize(
    ("run", "title"),
    [
        ({"policy": {"type": "act"}, "dataset": {"root": "data/pusht"}}, "ACT on pusht"),
        ({"policy": {"type": "mine"}, "dataset": {"repo_id": "me/cups"}}, "mine on cups"),
        ({"dataset": {"root": "data/pusht"}}, "pusht"),
        ({"policy": {"type": "act"}}, "ACT"),
        ({"policy": "act", "dataset": None}, "my_run"),
        ({}, "my_run"),
    ],
)
def test_the_title_names_what_is_known(run: dict[str, Any], title: str) -> None:
    assert run_title(run, "my_run") == title


def test_a_full_run_fills_every_tile() -> None:
    run = {
        "wall_s": 571.3,
        "policy": {"num_parameters": 51_597_190, "num_trainable": 11_000_000},
        "batch": {"per_process": 8, "processes": 4, "accumulation": 2, "effective": 64}
        | {"steps_per_epoch": 400},
    }
    metrics = {
        "loss": series(2.0, 1.0, 0.5),
        "samples_per_s": series(900.0, 1000.0, 1100.0),
        "data_wait_share": series(0.5, 0.1, 0.1),
    }
    assert key_numbers(run, metrics) == [
        Tile("loss", "0.5", "from 2"),
        Tile("steps", "300", "0.75 epochs"),
        Tile("time", "9 min 31 s"),
        Tile("samples/s", "1,000", "10% waiting for data"),
        Tile("samples/step", "64", "= 8 × 4 × 2"),
        Tile("parameters", "51.6M", "11.0M trained"),
    ]


@pytest.mark.parametrize(
    "run",
    [
        {},
        {"wall_s": None, "batch": [], "policy": "act"},
        {"wall_s": float("nan"), "batch": {}},
        {"batch": {"effective": "64"}, "policy": {"num_parameters": -1}},
    ],
)
def test_what_is_not_known_has_no_tile(run: dict[str, Any]) -> None:
    assert key_numbers(run, {}) == []


def test_a_run_that_only_logged_nonsense_has_no_loss() -> None:
    assert key_numbers({}, {"loss": series(float("nan"), float("inf"))}) == []


def test_a_batch_that_does_not_divide_is_no_product() -> None:
    batch = {"per_process": 2, "processes": 3, "accumulation": 2, "effective": 7, "is_even": False}
    assert key_numbers({"batch": batch}, {}) == [Tile("samples/step", "7", "")]
