"""`manyhands bench loader` as users run it."""

import json

import pytest

from manyhands.cli.main import run_guarded
from manyhands_bench.main import bench_command


def test_a_table_for_people_and_numbers_for_programs(tiny_dataset, tmp_path, capsys):
    flags = ["--policy.type=diffusion", f"--dataset.root={tiny_dataset}", "--seconds=0.1"]
    own = ["--num_workers=0", "--epochs=2", f"--json={tmp_path / 'result.json'}"]
    assert bench_command(["loader", *flags, *own]) == 0
    printed = capsys.readouterr().out
    assert "every frame decoded" in printed and "samples/s" in printed
    assert "after epoch 2" in printed
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["decode_samples_per_s"] > 0
    assert {"cache_samples_per_s", "reference_samples_per_s", "resident_mib"} <= result.keys()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seconds=0", "--policy=act", "--dataset.root=x"], "--seconds=0.0"),
        (["--policy=act", "--dataset.root=x", "--secnds=3"], "--secnds"),
        (["--policy=act", "--dataset.root=nowhere"], "nowhere is not a LeRobot dataset"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, told, capsys):
    assert run_guarded(bench_command, ["loader", *arguments]) == 2
    assert told in capsys.readouterr().err
