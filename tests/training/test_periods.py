"""Periods counted in updates."""

from manyhands.config.resolve import read_train_config
from manyhands.training.periods import Periods


def steps(happens, num_steps: int) -> list[int]:
    return [step for step in range(1, num_steps + 1) if happens(step)]


def test_the_first_and_last_updates_are_always_logged():
    assert steps(Periods(10, 4, 0).log, 10) == [1, 4, 8, 10]


def test_the_last_update_is_always_saved():
    assert steps(Periods(10, 1, 4).save, 10) == [4, 8, 10]
    assert steps(Periods(10, 1, 0).save, 10) == [10]


def test_an_update_that_turns_out_to_be_the_last_is_saved_too():
    assert Periods(10, 1, 4).save(3, stopping=True)


def test_nothing_is_saved_when_saving_is_off():
    off = Periods(10, 1, 4, saves=False)
    assert steps(off.save, 10) == []
    assert not off.save(3, stopping=True)


def test_updates_are_judged_before_anything_is_told_or_kept_of_them():
    periods = Periods(32, log_every=16, save_every=7, validate_every=9, judge_every=10)
    assert steps(periods.judge, 32) == [1, 7, 9, 10, 14, 16, 18, 20, 21, 27, 28, 30, 32]


def test_evaluations_end_with_the_last_update_and_count_as_measurements():
    periods = Periods(10, log_every=20, save_every=0, validate_every=3, evaluate_every=4)
    assert steps(periods.evaluate, 10) == [4, 8, 10]
    assert steps(periods.measure, 10) == [3, 4, 6, 8, 9, 10]
    assert steps(Periods(10, 1, 0).measure, 10) == []


def test_steps_are_judged_before_a_run_stops():
    periods = Periods(32, log_every=16, save_every=0, judge_every=10)
    assert periods.judge(7, stopping=True) and not periods.judge(7)


def test_periods_come_from_the_config():
    flags = ["--policy=act", "--dataset.root=x", "--steps=7", "--log_freq=3", "--save_freq=2"]
    assert Periods.from_config(read_train_config(flags)) == Periods(7, 3, 2)
    evaluating = read_train_config([*flags, "--env.type=tray", "--env_eval_freq=5"])
    assert Periods.from_config(evaluating) == Periods(7, 3, 2, evaluate_every=5)
