"""`manyhands plan` as users run it."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest

from manyhands.cli.main import run_guarded
from manyhands.cli.plan import end_cell, plan_command

SHAPES = ["--cameras=0", "--state_dim=3", "--action_dim=2"]
COLORS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.mark.process
def test_the_command_tells_people_and_programs(tiny_act, command, tmp_path):
    file = tmp_path / "plan.json"
    program = [sys.executable, "-m", "manyhands", "plan"]
    flags = [*SHAPES, *tiny_act, "--batch_size=4", "--gpus=[1,2]", "--gpu_memory=24GiB"]
    printed = command.run([*program, *flags, f"--json={file}"])
    for told in ("GiB/GPU", "FSDP2", "fits", "yes", "parameters", "per checkpoint"):
        assert told in printed
    rows = json.loads(file.read_text())["rows"]
    assert [row["strategy"] for row in rows] == ["single", "DDP", "FSDP2"]


def test_nothing_that_fits_is_an_answer_too(tiny_act, capsys):
    flags = [*SHAPES, *tiny_act, "--gpus=[1]", "--gpu_memory=1MiB"]
    assert plan_command(flags) == 2
    printed = capsys.readouterr().out
    assert "NO" in printed and "--parallelism.dp_shard=-1" in printed


def test_a_dataset_says_how_many_updates_an_epoch_has(tiny_act, tiny_dataset, capsys):
    flags = [f"--dataset.root={tiny_dataset}", *tiny_act, "--batch_size=3", "--gpus=[1,40]"]
    flags.append("--gpu_memory=80GiB")
    assert plan_command(flags) == 0
    printed = capsys.readouterr().out
    assert "steps/epoch" in printed and " 13 " in printed


def test_the_steps_of_an_epoch_are_exact_and_the_rounding_is_explained(tiny_act, tmp_path, capsys):
    file = tmp_path / "plan.json"
    flags = ["--num_samples=29500", "--batch_size=4", "--epochs=1", "--optimizer.lr=1.25e-6"]
    assert plan_command([*SHAPES, *tiny_act, *flags, f"--json={file}"]) == 0
    rows = {row["gpus"]: row for row in json.loads(file.read_text())["rows"]}
    exact = {gpus: row["steps_per_epoch"] for gpus, row in rows.items()}
    assert exact == {1: 7375, 2: 3687.5, 4: 1843.75, 8: 921.875}
    assert [rows[gpus]["steps"] for gpus in (1, 2, 4, 8)] == [7375, 3688, 1844, 922]
    linear = [rows[gpus]["lr_rules"]["linear"] for gpus in (1, 2, 4)]
    assert linear == pytest.approx([1.25e-6, 2.5e-6, 5e-6])
    printed = capsys.readouterr().out
    for words in (
        "3,687.5",
        "no sample is dropped or repeated",
        "round down",
        "recommended: 8 GPUs",
    ):
        assert words in printed


def test_a_benchmark_gives_hours_and_the_end(tiny_act, tmp_path, capsys):
    file = tmp_path / "step.json"
    file.write_text('{"batch_size": 4, "median_ms": 500, "device": "GPU X", "mode": "graph"}')
    flags = [*SHAPES, *tiny_act, "--batch_size=4", "--steps=72000", f"--benchmark={file}"]
    results = tmp_path / "plan.json"
    earliest = datetime.now().astimezone() + timedelta(hours=9, minutes=59)
    assert plan_command([*flags, "--gpus=[1]", f"--json={results}"]) == 0
    printed = capsys.readouterr().out
    assert "10 h 00 min" in printed and "ends" in printed and "GPU X, step mode graph" in printed
    (row,) = json.loads(results.read_text())["rows"]
    ends_at = datetime.fromisoformat(row["time"]["ends_at"]).astimezone()
    assert earliest < ends_at < earliest + timedelta(minutes=5)
    assert end_cell(ends_at) in printed


def test_a_run_that_ends_in_millions_of_years_is_planned(tiny_act, tmp_path, capsys):
    file, results = tmp_path / "step.json", tmp_path / "plan.json"
    file.write_text('{"batch_size": 4, "median_ms": 500, "device": "GPU X", "mode": "graph"}')
    flags = ["--batch_size=4", "--steps=1000000000000000", f"--benchmark={file}", "--gpus=[1]"]
    assert plan_command([*SHAPES, *tiny_act, *flags, f"--json={results}"]) == 0
    assert "after 9999" in capsys.readouterr().out
    (row,) = json.loads(results.read_text())["rows"]
    assert row["time"]["ends_at"] is None


def test_the_end_of_a_run_has_its_time_zone_and_a_year_if_it_is_another_one():
    now = datetime.now(UTC)
    assert end_cell(now.replace(month=3, day=5, hour=7, minute=9)) == "Mar 05 07:09 UTC"
    next_year = now.replace(year=now.year + 1, month=3, day=5, hour=7, minute=9)
    assert end_cell(next_year) == f"Mar 05 {now.year + 1} 07:09 UTC"


def test_steps_can_be_timed_here(tiny_act, capsys):
    flags = [*SHAPES, *tiny_act, "--batch_size=4", "--gpus=[1]", "--probe", "--policy.device=cpu"]
    assert plan_command(flags) == 0
    printed = capsys.readouterr().out
    assert "ms/step" in printed and "median of 10 steps here" in printed


def test_too_many_loader_processes_are_noted(tiny_act, capsys):
    assert plan_command([*SHAPES, *tiny_act, "--gpus=[64]", "--num_workers=64"]) == 0
    assert "WARNING: --num_workers=64" in capsys.readouterr().out


def test_reasons_stand_below_the_table(tiny_act, capsys):
    assert plan_command([*SHAPES, *tiny_act, "--global_batch_size=2", "--gpus=[1,4]"]) == 0
    assert capsys.readouterr().out.count("4 GPUs: --global_batch_size=2 leaves some") == 1


@pytest.mark.parametrize(
    ("flags", "most"),
    [
        (["--parallelism.dp_shard=2"], 8),
        (["--parallelism.dp_replicate=2", "--parallelism.dp_shard=-1"], 8),
        (["--parallelism.gpus_per_process=4", "--gpus=[1,4]"], 4),
    ],
)
def test_the_first_number_of_gpus_may_be_impossible(tiny_act, capsys, flags, most):
    assert plan_command([*SHAPES, *tiny_act, *flags]) == 0
    printed = capsys.readouterr().out
    assert "1 GPU: --parallelism." in printed and f"recommended: {most} GPUs" in printed


def test_where_nothing_is_possible_there_are_reasons_and_no_tables(tiny_act, capsys):
    flags = ["--parallelism.dp_shard=2", "--gpus=[1]", "--probe", "--policy.device=cpu"]
    assert plan_command([*SHAPES, *tiny_act, *flags]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith("1 GPU: --parallelism.dp_replicate=null")
    assert "Change the flags that are named above" in printed and "Nothing fits" not in printed


@pytest.mark.parametrize("width", [60, 80])
def test_tables_and_notes_fit_a_terminal_and_break_between_words(
    tiny_act, capsys, monkeypatch, terminal_of, width
):
    flags = [*SHAPES, *tiny_act, "--num_samples=29500", "--gpus=[1]", "--global_batch_size=10"]
    assert plan_command(flags) == 0
    words = capsys.readouterr().out.split()
    with terminal_of(width) as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal.file)
        patch.setenv("COLUMNS", str(width))
        assert plan_command(flags) == 0
    lines = COLORS.sub("", terminal.text).splitlines()
    assert all(len(line) <= width for line in lines), lines
    notes = words[words.index("parameters,") :]
    assert " ".join(" ".join(lines).split()).endswith(" ".join(notes))
    assert "…" not in "".join(lines)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--gpus=[0]"], "--gpus=[0] must be"),
        (["--gpus=[]"], "--gpus=[] must be"),
        (["--gpu_memory=much"], "--gpu_memory=much"),
        (["--gpu_memory=0"], "--gpu_memory=0 is too small"),
        (["--probe", "--benchmark=x.json"], "exclude each other"),
        (["--benchmark=nowhere.json"], "--benchmark=nowhere.json has no results"),
        (["--num_samples=0"], "--num_samples=0 must be at least 1"),
        (["--cameras=-1"], "--cameras=-1 must be at least 0"),
        (["--cameras=1", "--dataset.root=x"], "no effect with --dataset.root"),
        (["--resume=auto", "--output_dir=x"], "--resume=auto"),
        (["--policy.no_such=1"], "no_such"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told, tiny_act, capsys):
    assert run_guarded(plan_command, [*tiny_act, *arguments]) == 2
    assert told in capsys.readouterr().err
