"""The soak test itself is right: a run lives through it on a CPU, and faults are found."""

import json

import pytest
from soak_life import Life, Plan, Result, faults_of_decision, faults_of_rows, growth
from soak_recipes import CPU_RECIPE, RECIPES
from soak_report import add_result, read_results, table
from soak_start import (
    full_speed_s,
    lines_of,
    pause_s,
    phases_of,
    samples_per_minute,
    steps_per_s,
)

from manyhands.config.resolve import read_train_config

LOG = """\
2025-01-01 00:00:00  Step mode: CUDA graph
a line without a time
2025-01-01 00:00:01  step 1/100  loss 1
2025-01-01 00:00:02  step 10/100  loss 1
2025-01-01 00:00:02  Trying the compiled step in the background
2025-01-01 00:00:03  step 20/100  loss 1
2025-01-01 00:00:09  Switched to the compiled step: 1.0 ms instead of 2.0 ms per step
2025-01-01 00:00:10  step 30/100  loss 1
2025-01-01 00:00:11  step 40/10"""


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(600)
def test_a_run_lives_through_it_on_a_cpu(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = Life(CPU_RECIPE, tmp_path / "life", Plan(train_s=1.0, device="cpu")).result()
    assert result.outcome == "passed" and result.seconds > 0
    assert result.before > 0 and result.during is None and result.after is None
    assert len(result.resumed) == 2 and min(result.resumed) > 0
    assert len(result.full_speed_s) == 2 and len(result.first_step_s) == 3
    assert result.last_step > 60 and result.last_loss > 0
    assert result.gpu_gib is None and len(result.host_growth_mib) == 3


def rows(*seconds: float, every: int = 10) -> list[dict[str, float]]:
    """Rows whose steps take so long."""
    return [
        {"step": every * number + (number == 0), "step_s": each, "samples_per_s": 8 / each}
        | {"loss": 1.0}
        for number, each in enumerate(seconds)
    ]


def test_rows_belong_to_what_the_log_says_around_them():
    lines = lines_of(LOG)
    assert len(lines) == 7 and lines[1][0] - lines[0][0] == 1
    phases = phases_of(lines, rows(9, 1, 2, 0.5, 0.5))
    assert {name: [row["step"] for row in each] for name, each in phases.items()} == {
        "before": [1, 10],
        "during": [20],
        "after": [30],
    }


def test_speeds_come_from_the_times_of_rows():
    assert steps_per_s([]) is None and steps_per_s(rows(0.5, 0.5, 4)) == 2
    made = rows(9, 1, 1, 0.1, 0.1, 0.1, 0.1)
    assert full_speed_s(made) == 9 + 10 and full_speed_s(made[:2]) is None
    assert pause_s(made) == pytest.approx(10 - 1) and pause_s([]) is None
    assert samples_per_minute(rows(*[1.0] * 14)) == pytest.approx([8, 8], rel=0.2)


def test_losses_and_steps_that_are_not_right_are_found():
    good = rows(1, 1, 1)
    assert faults_of_rows(good, 10) == []
    assert faults_of_rows([*good, good[-1] | {"step": 23}], 10) == []
    bad = good[1] | {"loss": float("nan")}
    assert faults_of_rows([good[0], bad, good[2]], 10) == ["the loss is not finite in steps [10]"]
    assert faults_of_rows([*good[:2], *good[1:]], 10) == ["logged again in steps [10]"]
    assert faults_of_rows([good[0], good[2]], 10) == ["not logged in steps [10]"]


def test_only_missing_memory_excuses_a_run_that_does_not_switch(tmp_path):
    for reason in (
        "Switched to the compiled step: 1.0 ms instead of 2.0 ms per step",
        "Compiled step not tried: a trial needs 9 GiB of GPU memory, and 1 GiB are free",
    ):
        assert faults_of_decision(reason, tmp_path) == []
    (tmp_path / "manyhands_trials").mkdir()
    (tmp_path / "manyhands_trials" / "key.log").write_text("Segmentation fault\n")
    reason = "Compiled step not used: its trial was killed by signal 11"
    assert faults_of_decision(reason, tmp_path) == [reason, "key.log:\nSegmentation fault"]


def test_memory_that_grows_is_found():
    assert growth([1, 5, 5, 5]) == 0 and growth([1, 2, 3, 4]) == 2 and growth([1]) is None


def test_results_of_several_processes_become_one_table(tmp_path):
    assert read_results(tmp_path / "none") == []
    add_result(tmp_path, Result("one", "FAILED: ''"))
    add_result(tmp_path, Result("two", "passed", 1.0, 2.0, 3.0, [3.0, None], last_step=7))
    add_result(tmp_path, Result("one", "passed", samples_per_minute=[7.0, 9.0]))
    results = read_results(tmp_path)
    assert [result.recipe for result in results] == ["one", "two"]
    lines = table(results).splitlines()
    assert lines[2].split() == ["one", *["-"] * 13, "passed"]
    assert lines[3].split()[:6] == ["two", "1.0", "2.0", "3.0", "3.0", "-"]
    assert lines[4].endswith("every minute: 7 9")
    json.dumps([vars(result) for result in results])


def test_recipes_are_eight_and_their_flags_are_known():
    assert len({recipe.name for recipe in RECIPES}) == len(RECIPES) == 8
    for recipe in (each for each in RECIPES if not each.base):
        config = read_train_config([*recipe.common, *recipe.flags, "--dataset.root=data"])
        assert config.step.mode == "auto" and config.step.compile_min_left_s == 0
