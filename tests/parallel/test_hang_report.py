"""A hang is told with the rank that is late and what it does."""

import pickle
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest
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
    place = place._replace(frame="/my files/net.py:3 in forward")
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


HANGING = """
import os, sys, threading, time, torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from manyhands.parallel.hang_report import main_frame

class Network(torch.nn.Linear):
    def forward(self, x):
        if rank == 1:
            time.sleep(60)
        return super().forward(x)

rank, where = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{where}", rank=rank, world_size=2)
network = DistributedDataParallel(Network(4, 4))

def tell():
    print(main_frame(), flush=True)
    os._exit(0)

threading.Timer(1.0, tell).start()
if sys.argv[3] == "all_reduce" and rank == 0:
    distributed.all_reduce(torch.ones(5))
network(torch.ones(2, 4)).sum().backward()
"""


@pytest.mark.process
@pytest.mark.parametrize("where", ["all_reduce", "backward"])
def test_the_rank_that_others_wait_for_inside_a_step_is_named(tmp_path: Path, where: str):
    command = [sys.executable, "-c", HANGING]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), where], stdout=PIPE)
        for rank in range(2)
    ]
    frames = [rank.communicate(timeout=60)[0].decode().strip() for rank in ranks]
    now = time.time()
    places = [RankPhase(8, "update", now - 30, frame) for frame in frames]
    assert [place.waits for place in places] == [True, False], frames
    told = hang_message(places, [], 30, None)
    assert "rank 1 did not arrive" in told
    assert "in phase 'update' for 30 s, at <string>:" in told


def test_where_no_rank_stands_out_all_places_are_shown():
    now = time.time()
    frame = "/torch/distributed/distributed_c10d.py:3 in all_reduce"
    both = [RankPhase(8, "update", now, frame)] * 2
    told = hang_message(both, [], 30, None)
    assert "all ranks are in the same phase" in told and told.count(f", at {frame}") == 2


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
