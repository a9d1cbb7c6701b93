"""A rank that dies, fails or hangs ends the run, with its own words first and nobody left."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mlp_policy"
DEADLINE_S = 210
STEPS = ("--steps=1000000", "--log_freq=2", "--save_freq=0", "--batch_size=2")

FAULTY = """
import os
from mlp_policy.config import MlpConfig
from mlp_policy.network import MlpNetwork
from manyhands.errors import DatasetError

class FaultyConfig(MlpConfig):
    type = "faulty"

class FaultyNetwork(MlpNetwork):
    calls = 0
    def entry_counts(self, batch):
        self.calls += 1
        if os.environ["RANK"] == "1" and self.calls == 3:
            raise {error}("planted in rank 1")
        return super().entry_counts(batch)
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
    assert "rank 2 was ended by SIGKILL" in job.printed()
    assert "Traceback" not in job.printed()


@pytest.mark.process
def test_a_stopped_rank_is_found_and_named(start_job, tmp_path):
    job = start_job(tmp_path / "run", 2, *STEPS, "--timeout_s=15")
    job.wait_for_updates()
    job.rank(1).suspend()
    code, _ = job.end()
    assert code == 1
    assert "no progress for 15 s, the limit of --timeout_s: rank 1 gave no sign" in job.printed()
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
    assert re.search(r"rank 1 is in 'data'", job.printed())
    assert re.search(r"rank 0 is in 'update'", job.printed())
    assert "loading/workers.py" in job.printed()


@pytest.fixture
def faulty(tmp_path: Path):
    """Makes a policy of another package, whose rank 1 fails in its third update."""

    def plant(error: str) -> str:
        (tmp_path / "faulty.py").write_text(FAULTY.format(error=error))
        info = tmp_path / "faulty-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(POINTS)
        return f"{tmp_path}{os.pathsep}{EXAMPLE}"

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
    assert printed.index("rank 1 ended with exit code 1; what it said is above") > place


@pytest.mark.launchers
@pytest.mark.process
def test_under_torchrun_only_the_rank_that_fails_speaks(faulty, tiny_dataset, tmp_path):
    path = faulty("DatasetError")
    code, printed = faulty_run(TORCHRUN, path, tiny_dataset, tmp_path / "run")
    assert code == 1, printed
    before, _, _ = printed.partition("torch/distributed/elastic")
    assert before.count("manyhands rank 1: planted in rank 1") == 1, printed
    assert "Traceback" not in before
