"""A rank that dies, fails or hangs ends the run, with its own words first and nobody left."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

BIN = Path(sys.executable).parent
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mlp_policy"
DEADLINE_S = 210
END_S = 60
STEPS = ("--steps=1000000", "--log_freq=2", "--save_freq=0", "--batch_size=2")

FAULTY = """
import ctypes, os, time
import accelerate
import torch
from mlp_policy.config import MlpConfig
from mlp_policy.network import MlpNetwork
from manyhands.errors import DatasetError

class FaultyConfig(MlpConfig):
    type = "faulty"

class FaultyNetwork(MlpNetwork):
    calls = 0
    def entry_counts(self, batch):
        self.calls += 1
        if self.calls == 3:
            {fault}
        return super().entry_counts(batch)

def fail(rank):
    if os.environ["RANK"] == rank:
        raise {error}("planted in rank 1")

def hang(*_):
    # In a call that hears no signal and does not return, as a collective of NCCL.
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(256)
    lock(mutex), lock(mutex)

def run_out_of_memory(rank):
    if os.environ["RANK"] != rank:
        hang()
    accelerate.PartialState._reset_state = hang  # Teardown calls it.
    torch.empty(1 << 46)
"""
POINTS = "[manyhands.policies]\nfaulty = faulty:FaultyConfig\n"
POINTS += "[manyhands.networks]\nfaulty = faulty:FaultyNetwork\n"


@pytest.mark.process
def test_a_killed_rank_ends_all_within_ten_seconds_and_is_named(start_job, tmp_path):
    job = start_job(tmp_path / "run", 4, *STEPS, "--num_workers=1")
    job.wait_for_updates()
    assert len(job.processes) >= 8
    job.rank(2).kill()
    code, took_s = job.end()
    assert code == 128 + signal.SIGKILL
    assert took_s < 10
    assert "rank 2 was killed by SIGKILL" in job.printed()
    assert "Traceback" not in job.printed()


@pytest.mark.process
def test_a_stopped_rank_is_found_and_named(start_job, tmp_path):
    job = start_job(tmp_path / "run", 2, *STEPS, "--timeout_s=15")
    job.wait_for_updates()
    job.rank(1).suspend()
    code, _ = job.end()
    assert code == 1
    assert "no progress for 15 s (--timeout_s): rank 1 did not respond" in job.printed()
    assert "loop.py" in (job.run_dir / "hang" / "rank-00.txt").read_text()


@pytest.mark.process
def test_a_rank_whose_data_hangs_is_named_with_its_stack(start_job, tmp_path):
    job = start_job(tmp_path / "run", 2, *STEPS, "--num_workers=1", "--timeout_s=15")
    job.wait_for_updates()
    # The process that reads samples for rank 1, and the server that it was forked off.
    for loader in job.rank(1).children(recursive=True):
        loader.suspend()
    code, _ = job.end()
    assert code == 1
    assert "rank 1 did not arrive" in job.printed()
    assert re.search(r"rank 1: in phase 'data'", job.printed())
    assert re.search(r"rank 0: in phase 'update' for \d+ s, at .*:\d+ in ", job.printed())
    assert "loading/workers.py" in job.printed()


@pytest.fixture
def faulty(tmp_path: Path):
    """Makes a policy of another package that does something in its third step."""

    def plant(error: str, fault: str = "fail('1')") -> str:
        (tmp_path / "faulty.py").write_text(FAULTY.format(error=error, fault=fault))
        info = tmp_path / "faulty-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(POINTS)
        paths = [str(tmp_path), str(EXAMPLE), os.environ.get("PYTHONPATH", "")]
        return os.pathsep.join(filter(None, paths))

    return plant


def faulty_run(launcher: list[str], path: str, dataset: Path, run_dir: Path) -> tuple[int, str]:
    flags = [f"--dataset.root={dataset}", "--policy.type=faulty", "--policy.device=cpu"]
    flags += [*STEPS, "--num_workers=0", f"--output_dir={run_dir}"]
    environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [*launcher, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        env=environ,
        check=False,
    )
    return done.returncode, done.stdout


OWN = [str(BIN / "manyhands-train"), "--launch.num_processes=2"]
TORCHRUN = [str(BIN / "torchrun"), "--nproc-per-node=2", str(BIN / "manyhands-train")]


@pytest.mark.process
def test_a_rank_that_fails_shows_its_traceback_first(faulty, tiny_dataset, tmp_path):
    path = faulty("ValueError")
    code, printed = faulty_run(OWN, path, tiny_dataset, tmp_path / "run")
    assert code == 1, printed
    assert printed.count("Traceback") == 1, printed
    place = printed.index("ValueError: planted in rank 1")
    assert printed.index("rank 1 failed with exit code 1; see its output above") > place


def processes_of(run_dir: Path) -> list[psutil.Process]:
    """What is left of a run, by the folder in its command line."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"--output_dir={run_dir}" in (process.info["cmdline"] or [])
    ]


@pytest.mark.process
@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_out_of_memory_ends_all_that_hang_though_it_cannot_tear_down(
    faulty, tiny_dataset, tmp_path, rank
):
    path = faulty("ValueError", f"run_out_of_memory('{rank}')")
    launcher = [OWN[0], "--launch.num_processes=3"]
    code, printed = faulty_run(launcher, path, tiny_dataset, tmp_path / "run")
    assert code == 2, printed
    told = f"rank {rank}: out of memory in a training step on cpu"
    assert printed.count(told) == 1 == printed.count("out of memory in a training"), printed
    assert "Traceback" not in printed
    assert processes_of(tmp_path / "run") == []
    # The last row is that of the step before.
    assert time.time() - (tmp_path / "run" / "metrics.jsonl").stat().st_mtime < END_S


@pytest.mark.process
def test_an_error_of_all_ranks_is_printed_once_and_names_none(faulty, tiny_dataset, tmp_path):
    path = faulty("DatasetError", "raise DatasetError('planted in all ranks')")
    code, printed = faulty_run(OWN, path, tiny_dataset, tmp_path / "run")
    assert code == 2, printed
    lines = [line for line in printed.splitlines() if "planted" in line]
    assert lines == ["manyhands: planted in all ranks"], printed


@pytest.mark.launchers
@pytest.mark.process
def test_under_torchrun_a_rank_out_of_memory_reports_before_the_others_leave(
    faulty, tiny_dataset, tmp_path
):
    path = faulty("ValueError", "run_out_of_memory('1')")
    code, printed = faulty_run(TORCHRUN, path, tiny_dataset, tmp_path / "run")
    assert code == 1, printed
    before, _, after = printed.partition("torch/distributed/elastic")
    assert before.count("rank 1: out of memory in a training step") == 1, printed
    assert "exitcode  : 2" in after, printed
    assert processes_of(tmp_path / "run") == []


@pytest.mark.launchers
@pytest.mark.process
def test_under_torchrun_only_the_rank_that_fails_speaks(faulty, tiny_dataset, tmp_path):
    path = faulty("DatasetError")
    code, printed = faulty_run(TORCHRUN, path, tiny_dataset, tmp_path / "run")
    assert code == 1, printed
    before, _, _ = printed.partition("torch/distributed/elastic")
    assert before.count("manyhands rank 1: planted in rank 1") == 1, printed
    assert "Traceback" not in before
