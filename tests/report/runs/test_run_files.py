"""What a run left behind, found in its directory."""

from pathlib import Path

import pytest
from page_runs import write_evaluation, write_everything, write_run

from manyhands.errors import UserError
from manyhands.report.runs.run_files import check_run, read_run_files, run_labels


def test_every_file_of_a_run_is_read(tmp_path: Path) -> None:
    files = read_run_files(write_everything(tmp_path / "run"))
    assert files.label == "run" and files.run["job_name"] == "pick"
    assert len(files.rows) == len(files.metrics["loss"]) == 100
    assert len(files.rank_rows) == 12
    assert [len(each.episodes) for each in files.evaluations] == [3, 3]
    assert len(files.open_loop) == 1


def test_seed_folder_and_newest_checkpoint_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    policy = run / "checkpoints" / "000400" / "pretrained_model"
    policy.mkdir(parents=True)
    (run / "checkpoints" / "last").symlink_to("000400")
    assert read_run_files(run).keys == [
        ("run directory", str(run)),
        ("checkpoint", str(policy)),
        ("seed", "7"),
        ("job name", "pick"),
    ]


@pytest.mark.parametrize(
    ("ending", "shown", "mood"),
    [
        ("finished", "finished", "good"),
        ("failed: KeyError", "failed: KeyError", "bad"),
        ("diverged", "diverged", "bad"),
        ("stopped", "stopped", "neutral"),
        (None, "killed", "bad"),
    ],
)
def test_an_ending_has_a_mood(tmp_path: Path, ending: str | None, shown: str, mood: str) -> None:
    files = read_run_files(write_run(tmp_path, ending=ending))
    assert (files.ending, files.mood) == (shown, mood)


def test_a_start_is_written_as_people_do(tmp_path: Path) -> None:
    assert read_run_files(write_run(tmp_path)).started_at == "2025-01-02 03:04 UTC"
    assert read_run_files(write_run(tmp_path, started_at="today")).started_at == "today"


def test_an_empty_folder_is_an_empty_run(tmp_path: Path) -> None:
    files = read_run_files(tmp_path)
    assert (files.run, files.metrics, files.ending, files.started_at) == ({}, {}, "", "")
    assert files.keys == [("run directory", str(tmp_path))]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere is not a folder. Pass a run's --output_dir"):
        read_run_files(tmp_path / "nowhere")


def test_labels_are_as_short_as_they_can_be() -> None:
    assert run_labels([Path("x/a")]) == [""]
    assert run_labels([Path("x/a"), Path("x/b")]) == ["a", "b"]
    assert run_labels([Path("x/run"), Path("y/run")]) == ["x/run", "y/run"]


def test_a_folder_in_which_no_run_left_anything_is_rejected(tmp_path: Path) -> None:
    check_run(write_run(tmp_path / "run"))
    write_evaluation(tmp_path / "scores" / "eval", [True])
    check_run(tmp_path / "scores")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"neither a run .* nor a dataset"):
        check_run(tmp_path / "empty")
