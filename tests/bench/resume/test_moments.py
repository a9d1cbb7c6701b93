"""Moments to kill at."""

import threading
import time

import torch

from manyhands.observe.audit import Audit, audit_file
from manyhands.observe.jsonl import JsonLines
from manyhands_bench.resume.moments import (
    LONGEST_S,
    SHORTEST_S,
    Kill,
    Moment,
    RunObserver,
    planned_kills,
    wait_for_kill,
    wait_in_start,
    wait_until,
)

DEADLINE_S = 20.0


def kill_at(moment, **changes):
    values = {"num_updates": 1, "is_late": False, "place": 0.0, "victim": 0.0}
    return Kill(moment=moment, by_launcher=False, **values | changes)


def audit_rows(run_dir):
    return JsonLines(run_dir / "audit" / audit_file(0), 0)


def too_late():
    deadline = time.monotonic() + DEADLINE_S
    return lambda: time.monotonic() > deadline


def test_a_seed_always_plans_the_same_and_another_seed_something_else():
    assert planned_kills(3, 50) == planned_kills(3, 50) != planned_kills(4, 50)
    assert planned_kills(3, 50)[:10] != planned_kills(3, 10) or len(planned_kills(3, 10)) == 10


def test_half_of_all_kills_aim_at_saves_and_some_start_as_users_do():
    kills = planned_kills(0, 100)
    moments = [kill.moment for kill in kills]
    assert moments.count(Moment.SAVE) >= 50 and set(moments) == set(Moment)
    assert sum(kill.by_launcher for kill in kills) == 20
    assert any(kill.is_late for kill in kills) and not all(kill.is_late for kill in kills)
    assert all(SHORTEST_S <= kill.delay_s <= LONGEST_S for kill in kills)


def test_updates_count_from_where_a_run_goes_on(tmp_path):
    before = audit_rows(tmp_path)
    for step in range(1, 8):
        before.append({"step": step, "indices": []})
    trail = RunObserver(tmp_path, start=4)
    assert trail.num_updates() == 0 and trail.moment() is Moment.START
    audit = Audit(tmp_path, 0, 1, step=4)
    assert trail.num_updates() == 0
    audit.record(5, {"index": torch.arange(2)})
    assert trail.num_updates() == 1 and trail.moment() is Moment.UPDATE


def test_a_fresh_run_counts_from_zero(tmp_path):
    trail = RunObserver(tmp_path / "run", start=0)
    assert trail.num_updates() == 0 and trail.saved() == set()
    rows = audit_rows(tmp_path / "run")
    rows.append({"step": 1, "indices": []})
    assert trail.num_updates() == 1


def test_a_save_is_seen_while_its_folder_is_beside_the_others(tmp_path):
    trail = RunObserver(tmp_path, start=0)
    audit_rows(tmp_path).append({"step": 1, "indices": []})
    (tmp_path / "checkpoints" / "000004").mkdir(parents=True)
    assert trail.moment() is Moment.UPDATE and trail.saved() == {"000004"}
    for name in (".000008.partial", ".000008.shards", ".000004.removed"):
        scratch = tmp_path / "checkpoints" / name
        scratch.mkdir()
        assert trail.moment() is Moment.SAVE
        scratch.rmdir()
    assert trail.moment() is Moment.UPDATE


def test_a_kill_waits_for_its_updates_and_its_save(tmp_path):
    trail, rows = RunObserver(tmp_path, start=0), audit_rows(tmp_path)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()

    def run():
        for step in range(1, 6):
            rows.append({"step": step, "indices": []})
            time.sleep(0.02)
        (checkpoints / ".000005.partial").mkdir()
        time.sleep(0.3)
        (checkpoints / ".000005.partial").rename(checkpoints / "000005")

    running = threading.Thread(target=run)
    running.start()
    assert wait_for_kill(kill_at(Moment.UPDATE, num_updates=3), trail, too_late())
    assert trail.num_updates() >= 3
    assert wait_for_kill(kill_at(Moment.SAVE), trail, too_late()) and trail.is_saving()
    running.join()


def test_the_end_of_a_save_is_the_moment_of_a_late_kill(tmp_path):
    trail = RunObserver(tmp_path, start=0)
    audit_rows(tmp_path).append({"step": 1, "indices": []})
    target = tmp_path / "checkpoints" / "000004"
    appearing = threading.Timer(0.1, lambda: target.mkdir(parents=True))
    appearing.start()
    late = kill_at(Moment.SAVE, num_updates=0, is_late=True)
    assert wait_for_kill(late, trail, too_late()) and trail.saved() == {"000004"}


def test_a_late_kill_in_a_start_waits_for_its_first_file(tmp_path):
    trail = RunObserver(tmp_path / "run", start=0)
    assert not trail.has_begun()
    appearing = threading.Timer(0.1, lambda: (tmp_path / "run" / "audit").mkdir(parents=True))
    appearing.start()
    late = kill_at(Moment.START, is_late=True)
    assert wait_in_start(late, 0.0, trail, too_late()) and trail.has_begun()
    early = kill_at(Moment.START, place=0.5)
    started = time.monotonic()
    assert wait_in_start(early, 0.4, trail, too_late())
    assert 0.2 <= time.monotonic() - started < DEADLINE_S


def test_nobody_waits_for_a_run_that_is_over(tmp_path):
    assert not wait_until(lambda: False, lambda: True)
    trail = RunObserver(tmp_path, start=0)
    assert not wait_for_kill(kill_at(Moment.UPDATE), trail, lambda: True)
    assert not wait_for_kill(kill_at(Moment.SAVE, num_updates=0), trail, lambda: True)
