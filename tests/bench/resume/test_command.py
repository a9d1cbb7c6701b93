"""`manyhands bench resume` as users run it."""

import json
from collections import Counter

import pytest

from manyhands.cli.main import run_guarded
from manyhands_bench.main import bench_command
from manyhands_bench.resume.campaign import ResumeResult
from manyhands_bench.resume.command import captions, show, train_as_program
from manyhands_bench.resume.delay import Delay
from manyhands_bench.resume.trial import Tally


def result_of(*failures, **changes):
    tally = Tally(
        "diffusion-fsdp",
        moments=Counter(start=1, save=2),
        victims=Counter({"launcher": 1, "rank 1": 2}),
        starts=Counter(launched=1, forked=2),
        runs=1,
        failures=[*failures],
    )
    values = {"seed": 7, "tallies": [tally], "delay": None, "wall_s": 125.0, "folder": None}
    return ResumeResult(**values | changes)


def test_the_table_has_a_row_for_every_run_and_one_for_all(capsys):
    show(result_of())
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if "diffusion-fsdp" in line or "all" in line]
    counts = ["3", "1", "0", "2", "1", "0", "2", "0", "1", "0"]
    assert [line.split()[1:] for line in lines] == [counts, counts]
    assert "kill -9 at 3 moments, 1 in launched and" in printed
    assert "; 0 failures;" in printed and "seed 7, 2 min 05 s" in printed


def test_failures_are_told_with_where_to_look(tmp_path):
    told = "\n".join(captions(result_of("act-ddp: it differs", folder=tmp_path)))
    assert "1 failures" in told and "FAILED: act-ddp: it differs" in told
    assert f"run folders: {tmp_path}" in told


def test_a_save_that_training_waits_for_too_long_is_a_warning():
    good = Delay(state_bytes=500_000_000, update_s=0.25, sync_s=2.0, async_s=0.2)
    bad = Delay(state_bytes=500_000_000, update_s=0.25, sync_s=2.0, async_s=0.5)
    told = "\n".join(captions(result_of(tallies=[], delay=good)))
    assert (
        "0.20 s asynchronously and by 2.00 s synchronously: 10.0%" in told and "WARNING" not in told
    )
    assert "WARNING: that is above 15%" in "\n".join(captions(result_of(delay=bad)))


def test_nothing_to_do_is_done_at_once(tmp_path, capsys):
    file = tmp_path / "result.json"
    assert bench_command(["resume", "--kills=0", "--saves=0", f"--json={file}"]) == 0
    document = json.loads(file.read_text())
    assert document.keys() >= {"kills", "failures", "async_over_sync"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--kills=-1"], "--kills=-1"),
        (["--cases=[act-dp]"], "act-dp"),
        (["--kils=3"], "--kils"),
        (["--dataset.root=x"], "--dataset"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told, capsys):
    assert run_guarded(bench_command, ["resume", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_launcher_around_it_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    assert run_guarded(bench_command, ["resume", "--kills=0"]) == 2
    assert "Run it without torchrun" in capsys.readouterr().err


def test_help_is_an_answer(capsys):
    assert run_guarded(bench_command, ["resume", "--help"]) == 0
    assert "manyhands bench resume" in capsys.readouterr().out


def test_what_is_forked_does_what_the_program_does(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pytest"])
    assert train_as_program(["--help"]) == 0
    assert "manyhands train" in capsys.readouterr().out
    assert train_as_program(["--batch_sise=3"]) == 2
    assert "--batch_size" in capsys.readouterr().err
