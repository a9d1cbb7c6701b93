"""Rows that count as evidence."""

import pytest
from diagnosis_cases import EVERY, RUN, healthy_rows, rank_rows

from manyhands.observe.diagnosis.history import MAX_ROWS, MIN_ROWS, NUM_RECENT, History, deviation


def test_rows_of_a_warm_up_a_switch_and_an_early_stop_are_no_evidence():
    rows = healthy_rows(40)
    rows[20]["step_s"] *= 10  # The capture of compiled kernels.
    rows[-1]["unfinished"] = True
    history = History({**RUN, "resumed_at": 9 * EVERY}, rows, [])
    steps = {row["step"] for row in history.steady}
    assert {row["step"] for row in rows} - steps == {
        1,
        10 * EVERY,
        20 * EVERY,
        39 * EVERY,
    }


def test_a_slow_row_that_saves_or_waits_for_data_stays():
    rows = healthy_rows(40)
    for number, name in ((20, "checkpoint_s"), (21, "data_s")):
        rows[number][name] = 10 * rows[number]["step_s"]
        rows[number]["step_s"] *= 11
    assert len(History(RUN, rows, []).steady) == 39


def test_shares_are_of_time_and_rows_count_by_their_steps():
    rows = healthy_rows(8)
    for row in rows:
        row |= {"step_s": 0.1, "data_s": 0.0}
    rows[-1] |= {"data_s": 0.06, "step": rows[-2]["step"] + 3 * EVERY}
    history = History(RUN, rows, [])
    assert history.share("data_s", history.recent) == pytest.approx(0.2, rel=1e-3)
    assert history.usual_share("data_s") == 0


def test_only_the_newest_rows_count():
    history = History(RUN, healthy_rows(MAX_ROWS + 100), [])
    assert history.settled[0]["step"] > 100 * EVERY
    assert len(history.recent) == NUM_RECENT


def test_what_was_not_measured_is_not_zero():
    rows = healthy_rows(20)
    history = History(RUN, [{**row, "gpu_utilization": None} for row in rows], [])
    assert history.typical("gpu_utilization") is None
    assert history.typical("step_s") == pytest.approx(0.02, rel=0.1)


def test_ranks_are_judged_by_the_same_rows():
    rows = healthy_rows(20)
    history = History(RUN, rows, rank_rows(rows))
    assert {rank: len(found) for rank, found in history.by_rank.items()} == {0: 19, 1: 19}
    assert History(RUN, rows, rank_rows(rows[:MIN_ROWS])).by_rank == {}


def test_settings_are_found_by_their_flag():
    history = History(RUN, [], [])
    assert history.setting("optimizer.lr") == 1e-3
    assert history.setting("no.such", 5) == 5
    assert not history.has_enough


def test_the_deviation_ignores_outliers():
    assert deviation([1.0, 2.0, 3.0, 4.0, 1000.0]) == pytest.approx(1.4826)
