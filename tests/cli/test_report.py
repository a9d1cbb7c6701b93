"""`manyhands report` on the command line."""

import json
import shutil

import pytest

from manyhands.cli.report import report_command
from manyhands.errors import ConfigError, HelpShown, UserError


@pytest.fixture
def run_dir(tmp_path):
    """A run of two rows."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"ending": "finished", "policy": {"type": "act"}}))
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    return folder


def test_the_page_of_a_run_lies_in_the_run(run_dir, capsys):
    assert report_command([str(run_dir)]) == 0
    assert capsys.readouterr().out.startswith(f"report: {run_dir}/report.html (")
    assert "<h1>ACT</h1>" in (run_dir / "report.html").read_text()


def test_several_runs_are_compared_here(run_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run_dir, tmp_path / "other")
    assert report_command(["run", "other"]) == 0
    assert "2 runs compared" in (tmp_path / "report.html").read_text()
    assert report_command(["run", "--output", "x.html", "./run"]) == 0
    assert "<h1>ACT</h1>" in (tmp_path / "x.html").read_text()


def test_the_page_of_a_dataset_lies_here(tiny_dataset, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert report_command([str(tiny_dataset)]) == 0
    assert capsys.readouterr().out.startswith("report: tiny.html (")
    assert "<h1>tiny</h1>" in (tmp_path / "tiny.html").read_text()
    assert not (tiny_dataset / "report.html").exists()


def test_a_dataset_of_the_hub_is_found_by_its_name(tiny_dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    shutil.copytree(tiny_dataset, tmp_path / "home" / "owner" / "pick")
    assert report_command(["owner/pick"]) == 0
    assert "<h1>owner/pick</h1>" in (tmp_path / "pick.html").read_text()
    with pytest.raises(UserError, match="owner/none is not a folder, and dataset owner/none"):
        report_command(["owner/none"])


def test_a_page_is_about_runs_or_about_one_dataset(run_dir, tiny_dataset, tmp_path):
    with pytest.raises(UserError, match=r"tiny is a dataset, .*run is none\. A page shows"):
        report_command([str(tiny_dataset), str(run_dir)])
    both = tmp_path / "both"
    shutil.copytree(tiny_dataset, both)
    with pytest.raises(UserError, match="name only that one"):
        report_command([str(tiny_dataset), str(both)])
    shutil.copy(run_dir / "run.json", both)
    with pytest.raises(UserError, match=r"has run\.json of a run and meta/info\.json of a dataset"):
        report_command([str(both)])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"is neither a run .* nor a dataset"):
        report_command([str(tmp_path / "empty")])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], UserError, "no run. Name a run directory"),
        (["nowhere"], UserError, "nowhere is not a folder"),
        (["a", "--outptu=x"], ConfigError, r"did you mean --output\?"),
        ([str(number) for number in range(9)], UserError, "Name at most 8"),
        (["--help"], HelpShown, "^$"),
    ],
)
def test_usage_errors_are_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        report_command(arguments)
