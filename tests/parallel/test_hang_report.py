"""A hang is told with the rank that is late and what it does."""

import pickle
import time
from pathlib import Path

import torch
from torch import distributed

from manyhands.parallel.hang_report import (
    RankPhase,
    hang_message,
    read_place,
    write_flight_record,
    write_stacks,
)


def test_a_place_survives_the_store():
    place = RankPhase(7, "work of the main rank", 12.5)
    assert read_place(place.as_text().encode()) == place


def test_the_rank_that_did_not_arrive_is_named_with_its_stack(tmp_path: Path):
    write_stacks(tmp_path, 1)
    now = time.time()
    places = [
        RankPhase(8, "update", now - 30),
        RankPhase(7, "data", now - 31),
        RankPhase(8, "update", now),
    ]
    told = hang_message(places, [], 30, tmp_path)
    assert "no progress for 30 s (--timeout_s): rank 1 did not arrive" in told
    assert "rank 1: in phase 'data' for 31 s" in told
    assert "rank 0: in phase 'update' for 30 s" in told
    assert "test_hang_report.py" in told
    assert str(tmp_path) in told


def test_a_rank_that_does_not_answer_is_named():
    now = time.time()
    told = hang_message([RankPhase(8, "update", now), RankPhase(8, "update", now)], [1], 30, None)
    assert "rank 1 did not respond" in told
    assert "does not respond (stopped or frozen)" in told


def test_ranks_that_wait_for_each_other_are_all_shown():
    now = time.time()
    told = hang_message([RankPhase(8, "update", now), RankPhase(8, "update", now)], [], 30, None)
    assert "all ranks are in the same phase" in told


def test_stacks_go_to_a_file_of_the_rank(tmp_path: Path):
    write_stacks(tmp_path / "hang", 3)
    assert "test_hang_report.py" in (tmp_path / "hang" / "rank-03.txt").read_text()


def test_the_last_collectives_go_to_a_file_for_torchs_analyzer(tmp_path: Path):
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        distributed.all_reduce(torch.ones(5))
        write_flight_record(tmp_path, 3)
    finally:
        distributed.destroy_process_group()
    record = pickle.loads((tmp_path / "flight_recorder_rank_3").read_bytes())
    assert any([5] in entry["input_sizes"] for entry in record["entries"])


def test_without_a_folder_no_collectives_are_written(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_flight_record(None, 0)
    assert [*tmp_path.iterdir()] == []
