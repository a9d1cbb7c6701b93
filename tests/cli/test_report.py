"""`manyhands report` on the command line."""

import json

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
    assert report_command(["run", str(run_dir.parent)]) == 0
    assert "2 runs compared" in (tmp_path / "report.html").read_text()
    assert report_command(["run", "--output", "x.html", "./run"]) == 0
    assert "<h1>ACT</h1>" in (tmp_path / "x.html").read_text()


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
