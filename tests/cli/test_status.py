"""`manyhands status` on the command line."""

import json

import pytest

from manyhands.cli.main import run_guarded
from manyhands.cli.status import status_command


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "outputs" / "pick"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"ending": "finished", "budget": {"steps": 40000}}')
    row = {"step": 20000, "loss": 0.25, "step_s": 0.1, "samples_per_s": 80.0, "eval_success": 0.655}
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def test_runs_are_listed_with_step_loss_and_speed(run_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_guarded(status_command, ["--json=status.json"]) == 0
    printed = capsys.readouterr().out
    for cell in ("pick", "finished", "20,000 / 40,000", "0.25", "65.5%", "80", "ago"):
        assert cell in printed
    (entry,) = json.loads((tmp_path / "status.json").read_text())
    assert (entry["folder"], entry["step"], entry["state"]) == ("outputs/pick", 20000, "finished")


def test_a_folder_without_runs_is_no_mistake(tmp_path, capsys):
    assert run_guarded(status_command, [str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no runs in {tmp_path}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["nowhere"], "nowhere is not a folder"), (["a", "b"], "takes one folder, not 2")],
)
def test_mistakes_are_explained(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert run_guarded(status_command, arguments) == 2
    assert words in capsys.readouterr().err
