"""`manyhands bench step` as users run it."""

import json
import sys

import pytest

from manyhands.cli.main import run_guarded
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.main import bench_command
from manyhands_bench.step.command import captions, show

SHAPES = ["--cameras=0", "--state_dim=3", "--action_dim=2"]
SHORT = ["--num_steps=3", "--warm_up=1", "--batch_size=4"]
FIELDS = {
    "median_ms",
    "samples_per_s",
    "peak_memory_gib",
    "setup_s",
    "mode",
    "mfu",
    "reference_median_ms",
    "rows",
    "device",
    "precision",
    "batch_size",
    "flops_per_update",
    "peak_tflops",
    "roofline",
    "with_loader",
    "phase_cost",
}


@pytest.mark.process
def test_the_command_tells_people_and_programs(tiny_act, command, tmp_path):
    file = tmp_path / "step.json"
    program = [sys.executable, "-m", "manyhands", "bench", "step"]
    printed = command.run([*program, *SHAPES, *tiny_act, *SHORT, "--phase_cost", f"--json={file}"])
    for told in (
        "timing the phases of steps takes",
        "median ms",
        "of peak",
        "eager",
        "batch 4; median of 3 steps after 1 warm-up",
        "forward",
    ):
        assert told in printed
    told = json.loads(file.read_text())
    assert told.keys() == FIELDS
    assert told["mode"] == "eager" and told["median_ms"] > 0 and told["mfu"] > 0
    assert told["reference_median_ms"] is None and told["with_loader"] is None
    assert told["phase_cost"] > -1


def test_a_dataset_is_trained_from_its_loader_too(tiny_dataset, tiny_act, tmp_path, capsys):
    file = tmp_path / "step.json"
    data = [f"--dataset.root={tiny_dataset}", "--with_loader", f"--json={file}"]
    assert bench_command(["step", *data, *tiny_act, *SHORT]) == 0
    told = json.loads(file.read_text())
    assert told["with_loader"]["samples_per_s"] > 0 and told["with_loader"]["share"] > 0
    printed = capsys.readouterr().out
    assert "eager + loader" in printed and "with 0 loader processes" in printed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cameras=-1"], "--cameras=-1 must be at least 0"),
        (["--with_loader"], "--with_loader needs a dataset"),
        (["--cameras=1", "--dataset.root=x"], "no effect with --dataset.root"),
        (["--compare=[fast]"], "'fast'] is not one of"),
        (["--compare=[eager,graph]"], "needs a GPU"),
        (["--against=nowhere"], "--against=nowhere is not a Python executable"),
        (["--launch.num_processes=2"], "--launch.num_processes=2"),
        (["--step.mode=fast"], "--step.mode=fast is not one of"),
        (["--policy.no_such=1"], "no_such"),
        (["--resume=auto", "--output_dir=x"], "--resume=auto"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told, tiny_act, capsys):
    assert run_guarded(bench_command, ["step", *tiny_act, *SHORT, *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_python_without_lerobot_is_told(tiny_act, capsys):
    arguments = [*SHAPES, *tiny_act, *SHORT, f"--against={sys.executable}"]
    assert run_guarded(bench_command, ["step", *arguments]) == 2
    assert "LeRobot's step failed" in capsys.readouterr().err


def test_the_table_has_lerobot_beside_ours(step_result, capsys):
    show(step_result, BenchStepConfig())
    printed = capsys.readouterr().out
    assert "vs LeRobot" in printed and "4.00x" in printed and "71.0%" in printed


def test_lines_say_what_the_table_does_not(step_result):
    told = "\n".join(captions(step_result, BenchStepConfig()))
    assert "graph: host 0.50 ms, device 1.90 ms" in told and "forward" not in told
    assert "4 loader processes, 90.0% of the samples/s without loading" in told
    assert "2 GB at 4,000 GB/s; at least 1.60 ms" in told
