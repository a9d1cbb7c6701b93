"""`manyhands convert` on the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.cli.convert import convert_command, summary_lines
from manyhands.cli.main import run_guarded
from manyhands.data.dataset import open_dataset
from manyhands.data.writing.copy_episodes import CopySummary, copy_episodes
from manyhands.data.writing.copy_sources import EpisodeChoice, open_source
from manyhands.data.writing.output_files import SizeLimits

SUMMARY = CopySummary(
    num_datasets=1,
    num_episodes=3,
    num_frames=14,
    num_tasks=2,
    num_clips=6,
    num_encoded_clips=0,
    dropped_columns=[],
    num_bytes=2048,
    wall_s=1.25,
)


def run(*flags: object) -> int:
    return run_guarded(convert_command, [str(flag) for flag in flags])


def test_a_dataset_is_copied_and_summed_up(tiny_dataset, tmp_path, capsys):
    flags = (f"--output={tmp_path / 'new'}", f"--json={tmp_path / 'summary.json'}")
    assert run(f"--dataset.root={tiny_dataset}", "--exclude_episodes=[1]", *flags) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{tmp_path / 'new'}: 3 episodes, 27 frames, 1 tasks, ")
    assert (printed.out.count("\n"), printed.err) == (1, "")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["num_episodes"], summary["num_frames"]) == (3, 27)
    assert len(open_dataset(root=tmp_path / "new")) == 27


def test_chosen_episodes_and_merging(tiny_dataset, tmp_path, capsys):
    one, two = tmp_path / "one", tmp_path / "two"
    assert run("--dataset.root", tiny_dataset, "--output", one, "--episodes", "[2,0]") == 0
    assert run(f"--merge=[{one},{tiny_dataset}]", f"--output={two}") == 0
    assert "6 episodes of 2 datasets, 55 frames" in capsys.readouterr().out
    assert open_source(EpisodeChoice(two)).dataset.meta.episodes.lengths.tolist() == [
        *(7, 9),
        *(9, 12, 7, 11),
    ]


def test_a_name_is_looked_for_where_lerobot_keeps_datasets(
    tiny_dataset, tmp_path, monkeypatch, capsys
):
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "tiny").symlink_to(tiny_dataset)
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    assert run("--dataset.repo_id=me/tiny", f"--output={tmp_path / 'a'}") == 0
    assert run(f"--merge=[me/tiny,{tmp_path / 'a'}]", f"--output={tmp_path / 'b'}") == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dataset.root=nowhere", "--output=new"], "nowhere is not a LeRobot dataset"),
        (["--dataset.root={tiny}", "--output={tmp}"], "already exists"),
        (
            ["--dataset.root={tiny}", "--output={tmp}/new", "--episodes=[9]"],
            "no episode 9; it has episodes 0 to 3",
        ),
        (["--merge=[{tiny},{tmp}]", "--output={tmp}/new"], "is not a LeRobot dataset"),
        (["--dataset.root={tiny}", "--output={tmp}/new", "--episode=[1]"], "mean --episodes?"),
        (["--dataset.root={tiny}", "--output={tmp}/new", "--print_config"], "manyhands train"),
        (["--output=new"], "no dataset"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(tiny_dataset, tmp_path, capsys, flags, message):
    assert run(*(flag.format(tiny=tiny_dataset, tmp=tmp_path) for flag in flags)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_cannot_be_written_is_told_before_the_work(tiny_dataset, tmp_path, capsys):
    flags = (f"--output={tmp_path / 'new'}", f"--json={tmp_path / 'no' / 'summary.json'}")
    assert run(f"--dataset.root={tiny_dataset}", *flags) == 2
    assert "--json" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_worth_knowing_is_told():
    assert summary_lines(SUMMARY, Path("new")) == (
        "new: 3 episodes, 14 frames, 2 tasks, 2.0 KiB in 1.2 s; "
        "6 of 6 video clips copied without re-encoding"
    )
    odd = CopySummary(**vars(SUMMARY) | {"num_encoded_clips": 2, "dropped_columns": ["a", "b"]})
    lines = summary_lines(odd, Path("new")).splitlines()
    assert "4 of 6 video clips" in lines[0]
    assert lines[1].startswith("2 video clips did not start with a keyframe")
    assert lines[2].endswith("declares: a, b")


LIMITED = (
    "import resource, sys; from manyhands.cli.main import main;"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2); main()"
)


@pytest.mark.process
def test_a_full_disk_is_told_and_leaves_nothing(tiny_dataset, tmp_path):
    flags = ["convert", f"--dataset.root={tiny_dataset}", f"--output={tmp_path / 'new'}"]
    command = [sys.executable, "-c", LIMITED, "2000", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"cannot write {tmp_path / 'new'}" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.new_interpreter
def test_help_answers_without_torch():
    program = (
        "import sys; from manyhands.cli.convert import convert_command;"
        "from manyhands.cli.main import run_guarded;"
        "sys.exit(run_guarded(convert_command, ['--help']) or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    for flag in ("--merge", "--output", "--exclude_episodes", "--allow_mixed_robots", "--json"):
        assert flag in done.stdout


def test_a_checkpoint_without_shards_is_told(tmp_path, capsys):
    for name in ("pretrained_model", "training_state"):
        (tmp_path / name).mkdir()
    assert run(f"--checkpoint={tmp_path}") == 2
    assert "Only sharded checkpoints need converting" in capsys.readouterr().err


def test_a_policy_without_adapters_has_none_to_merge(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    assert run(f"--checkpoint={tmp_path}", f"--output={tmp_path / 'new'}") == 2
    assert "has no adapters to merge" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_missing_files_are_told_together_and_can_be_skipped(tiny_dataset, tmp_path, capsys):
    apart = tmp_path / "apart"
    copy_episodes([EpisodeChoice(tiny_dataset)], apart, limits=SizeLimits(1000, 1, 1))
    for path in sorted(apart.glob("data/**/*.parquet"))[1:3]:
        path.unlink()
    flags = (f"--dataset.root={apart}", f"--output={tmp_path / 'new'}")
    assert run(*flags) == 2
    told = capsys.readouterr().err
    assert "2 faults, in 2 of 4 episodes" in told and "--exclude_episodes=[1,2]" in told
    assert run(*flags, "--dataset.on_bad=skip") == 0
    assert "skipped 2 of 4 episodes (50.0%) and 19 of 39 frames" in capsys.readouterr().out
    assert len(open_dataset(root=tmp_path / "new")) == 20
    assert run(*flags, "--dataset.on_bad=maybe") == 2
    assert "--dataset.on_bad=maybe" in capsys.readouterr().err
