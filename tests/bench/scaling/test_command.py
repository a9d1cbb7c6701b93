"""`manyhands bench scaling` as users run it."""

import json
import os

import pytest

from manyhands.cli.main import run_guarded
from manyhands.cores import num_cores
from manyhands_bench.config import BenchScalingConfig
from manyhands_bench.main import bench_command
from manyhands_bench.scaling.command import captions
from manyhands_bench.scaling.host import Host
from manyhands_bench.scaling.speedup import Row, Scaling

NEEDS_TWO_CORES = pytest.mark.skipif(num_cores() < 2, reason="two processes need two cores")
FIELDS = {"processes", "samples_per_s", "speedup", "efficiency", "communication_share"}
BASE = ["--policy=act", "--dataset.root=x", "--policy.device=cpu"]


@pytest.mark.process
@NEEDS_TWO_CORES
@pytest.mark.launchers
def test_two_processes_are_measured_and_more_are_modelled(tiny_dataset, tiny_act, tmp_path, capsys):
    most = 2 * num_cores()
    flags = [f"--dataset.root={tiny_dataset}", *tiny_act, f"--processes=[2, {most}]"]
    own = ["--steps=5", "--warm_up=1", "--link_gbps=40", f"--json={tmp_path / 'rows.json'}"]
    assert bench_command(["scaling", *flags, *own]) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["processes"] for row in rows] == [1, 2, most]
    assert [row["kind"] for row in rows] == ["measured", "measured", "modelled"]
    for row in rows:
        assert row.keys() >= FIELDS | {"kind", "step_ms"}
        assert row["efficiency"] == pytest.approx(row["speedup"] / row["processes"])
        assert 0 <= row["communication_share"] < 1
    pids = [rank["pid"] for row in rows[:2] for rank in row["ranks"]]
    # One process before the two, and one after them.
    assert len(set(pids)) == 4 and os.getpid() not in pids
    assert [rank["num_ranks"] for rank in rows[1]["ranks"]] == [2, 2]
    assert "ranks" not in rows[2] and rows[2]["model"]["link_gbps"] == 40
    printed = " ".join(capsys.readouterr().out.split())
    for told in ("speed-up", "DDP, weak scaling", "CPU cores", "communication = 1 -", "40 Gbit/s"):
        assert told in printed


def row(processes, kind="measured", times=(10.0,), **values):
    ranks = [{"step_ms": time} for time in times]
    return Row(
        processes=processes,
        kind=kind,
        strategy="DDP",
        samples_per_step=8 * processes,
        samples_per_s=800.0,
        speedup=float(processes),
        efficiency=1.0,
        communication_share=0.0,
        step_ms=times[0],
        compute_ms=times[0],
        ranks=ranks,
        **values,
    )


def told_of(rows, **changes):
    values = {
        "rows": rows,
        "host": Host(True, 2, 16),
        "threads": 8,
        "device": "NVIDIA H200",
        "precision": "bf16",
        "is_strong": False,
        "num_samples": 8,
    }
    return "\n".join(captions(Scaling(**values | changes), BenchScalingConfig()))


def test_what_is_measured_without_doubt_is_told_without_warning():
    told = told_of([row(1, times=(10.0, 10.5)), row(2)])
    assert "weak scaling: 8 samples per process" in told and "NVIDIA H200" in told
    assert "WARNING" not in told and "modelled" not in told
    assert "strong scaling: 8 samples per step" in told_of([row(1)], is_strong=True)


def test_an_unsteady_or_busy_machine_is_told():
    assert "10.00 ms before the others and 15.00 ms after" in told_of([row(1, times=(10.0, 15.0))])
    busy = told_of([row(1)], host=Host(False, 2, 2, busy_share=0.5))
    assert "used 50% of the cores" in busy


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--processes=[0]"], "--processes=[0]"),
        (["--processes=[2, 2]"], "--processes=[2, 2]"),
        (["--processes=[100000]", "--kind=measured"], "--processes=[100000] cannot be measured"),
        (["--launch.num_processes=2"], "--launch.num_processes"),
        (["--overlap=2"], "--overlap=2.0"),
        (["--parallelism.dp_shard=3", "--processes=[2]"], "--parallelism.dp_shard=3"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told, capsys):
    assert run_guarded(bench_command, ["scaling", *BASE, *arguments]) == 2
    assert told in capsys.readouterr().err
