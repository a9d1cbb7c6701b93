"""Losses that do not fall as they should, and those that do."""

import math
import re
from typing import Any

import numpy as np
import pytest
from diagnosis_cases import RUN, healthy_rows

from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig
from manyhands.observe.diagnosis.advice import Diagnosis
from manyhands.observe.diagnosis.history import History
from manyhands.observe.diagnosis.loss_health import loss_problems


def found_in(rows: list[dict[str, Any]], run: dict[str, Any] = RUN) -> list[Diagnosis]:
    return [*loss_problems(History(run, rows, []))]


def assert_flags_exist(found: Diagnosis) -> None:
    known = {flag.name for flag in flags_of(TrainConfig)}
    named = re.findall(r"--([a-z_.]+[a-z])", found.remedy)
    assert set(named) <= known


def oscillating() -> list[dict[str, Any]]:
    rows, draw = healthy_rows(60), np.random.default_rng(0)
    for number, row in enumerate(rows):
        row["loss"] = 3.0 * math.exp((1.2 if number % 2 else -1.2) + 0.2 * draw.normal())
    return rows


def rising() -> list[dict[str, Any]]:
    rows = healthy_rows(60)
    for number, row in enumerate(rows):
        row["loss"] = row["grad_norm"] = 0.5 * math.exp(number / 20)
    return rows


def spiking() -> list[dict[str, Any]]:
    rows = healthy_rows(60)
    for row in rows[10::12]:
        row |= {"loss": 10 * row["loss"], "loss_spike": True}
    return rows


def diverged(levels: list[float], num_marked: int) -> list[dict[str, Any]]:
    """Rows whose loss ends at these multiples of what it was."""
    rows = healthy_rows(60 + len(levels))
    for number, (row, level) in enumerate(zip(rows[60:], levels, strict=True)):
        row["loss"] = 0.2 * level
        if number < num_marked:
            row["loss_spike"] = True
    return rows


def overfitted() -> list[dict[str, Any]]:
    rows = healthy_rows(60)
    for number, row in enumerate(rows):
        if "held_out_loss" in row:
            row["held_out_loss"] = 0.4 + abs(number - 24) / 100
    return rows


def test_a_loss_that_oscillates_asks_for_a_lower_learning_rate():
    (found,) = found_in(oscillating())
    assert (found.kind, found.severity) == ("loss_oscillating", "warning")
    assert "--optimizer.lr=0.0003" in found.remedy
    assert_flags_exist(found)


def test_a_loss_and_gradients_that_rise_are_those_of_too_high_a_learning_rate():
    (found,) = found_in(rising())
    assert (found.kind, found.severity) == ("lr_too_high", "warning")
    assert "0.001 is too high for a batch of 16" in found.text
    assert_flags_exist(found)


def test_spikes_count_once_there_are_several():
    (found,) = found_in(spiking())
    assert (found.kind, found.severity) == ("loss_spiking", "note")
    assert "5 of the last 59 rows" in found.text and "--audit=true" in found.remedy
    (found,) = found_in(spiking(), RUN | {"config": RUN["config"] | {"audit": True}})
    assert "--audit" not in found.remedy and "audit/" in found.remedy
    assert_flags_exist(found)
    assert found_in(spiking()[:30]) == []


def test_a_loss_that_does_not_come_back_asks_for_an_earlier_checkpoint():
    # Diffusion Policy on PushT at step 18,900 of 22,000, with gradient norms of 0.2 clipped at 10.
    levels = [33, 50, 41, 36, 30, 18, 14, 13, 12, 12, 12, 11, 5.3, 4.4]
    (found,) = found_in(diverged(levels, len(levels)))
    assert (found.kind, found.severity) == ("loss_diverged", "warning")
    assert "before step 12,000: since then the loss is at least 3.7x" in found.text
    assert "an earlier checkpoint" in found.remedy
    assert "--optimizer.grad_clip_norm=1," in found.remedy
    assert_flags_exist(found)
    # Once the former level is forgotten, further rows are not marked as spikes.
    (found,) = found_in(diverged(levels + 30 * [4.4], len(levels)))
    assert found.kind == "loss_diverged"


def test_a_loss_that_has_come_back_did_not_diverge():
    assert [each.kind for each in found_in(diverged([33, 50, 9, 1.1], 3))] == ["loss_spiking"]
    assert found_in(diverged([33, 50], 2)) == []


def test_a_rise_from_losses_of_zero_has_no_factor():
    rows = diverged([33, 50, 41, math.nan], 3)
    for row in rows[:60]:
        row["loss"] = 0.0
    assert [each.kind for each in found_in(rows)] == ["loss_spiking"]


def test_a_held_out_loss_that_rises_names_the_best_step():
    (found,) = found_in(overfitted())
    assert (found.kind, found.severity) == ("overfitting", "warning")
    assert "that of step 4800" in found.text
    assert "--keep_best=held_out_loss" in found.remedy
    assert_flags_exist(found)


@pytest.mark.parametrize(
    ("settings", "cache", "has", "lacks"),
    [
        (
            {},
            {"where": "disk"},
            "--keep_best=held_out_loss and --early_stopping_patience",
            "best (",
        ),
        ({"keep_best": "held_out_loss"}, None, "checkpoints/best", "Set --keep_best"),
        ({"keep_best": "held_out_loss"}, None, "or set --early_stopping_patience=3", "transforms"),
        (
            {"keep_best": "held_out_loss", "early_stopping_patience": 5},
            None,
            "ends by itself (--early_stopping_patience=5)",
            "set --early",
        ),
        ({}, {"where": "off"}, "more data or --dataset.image_transforms.enable=true", "best ("),
        ({"dataset": {"image_transforms": {"enable": True}}}, {"where": "off"}, "data", "transf"),
    ],
)
def test_overfitting_asks_for_no_setting_that_is_on(settings, cache, has, lacks):
    loading = {"num_workers": 4, "frame_cache": cache}
    run = RUN | {"loading": loading, "config": RUN["config"] | settings}
    (found,) = found_in(overfitted(), run)
    assert has in found.remedy and lacks not in found.remedy
    assert_flags_exist(found)


def test_the_best_held_out_loss_may_be_many_rows_ago():
    rows = overfitted()
    often = [
        {name: value for name, value in row.items() if name != "held_out_loss"} | {"step": step}
        for row in rows
        for step in range(row["step"] - 199, row["step"])
    ]
    (found,) = found_in(sorted([*rows, *often], key=lambda row: row["step"]))
    assert "that of step 4800" in found.text


def test_few_rows_or_samples_prove_nothing():
    assert found_in(oscillating()[:30]) == []
    single = {**RUN, "batch": {"effective": 1}}
    rows = [{**row, "step": number} for number, row in enumerate(oscillating(), start=1)]
    assert [*loss_problems(History(single, rows, []))] == []


def test_losses_that_are_not_numbers_are_skipped():
    rows = healthy_rows(60)
    rows[30]["loss"] = math.nan
    rows[31] |= {"loss": 0.0, "held_out_loss": math.inf}
    assert found_in(rows) == []
