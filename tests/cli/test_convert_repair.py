"""`manyhands convert --repair` on the command line."""

import json
import shutil

import pyarrow.parquet as pq

from manyhands.cli.convert import convert_command
from manyhands.cli.convert_repair import repairs_table
from manyhands.cli.main import run_guarded
from manyhands.data.dataset import open_dataset
from manyhands.data.repairing.report import Repair


def run(*flags: object) -> int:
    return run_guarded(convert_command, [str(flag) for flag in flags])


def test_repairs_are_listed_as_a_table_and_as_json(tiny_dataset, tmp_path, capsys):
    root = tmp_path / "bad"
    shutil.copytree(tiny_dataset, root)
    (path,) = root.glob("data/*/*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["index"]), path)
    flags = (f"--output_dir={tmp_path / 'good'}", f"--json={tmp_path / 'report.json'}")
    assert run("--repair", f"--dataset.root={root}", *flags) == 0
    printed = capsys.readouterr().out
    assert "column index" in printed and "rebuilt" in printed
    assert f"{tmp_path / 'good'}: 4 episodes, 39 frames, 0 episodes dropped, 1 faults" in printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["repairs"] == [
        {
            "where": "column index",
            "fault": "missing",
            "repair": "rebuilt",
            "episodes": [0, 1, 2, 3],
        }
    ]
    assert len(open_dataset(root=tmp_path / "good")) == 39


def test_a_folder_without_data_is_told(tmp_path, capsys):
    (tmp_path / "bad/meta").mkdir(parents=True)
    assert run("--repair", f"--dataset.root={tmp_path / 'bad'}", f"--output={tmp_path / 'x'}") == 2
    assert "has no readable data file" in capsys.readouterr().err
    assert run("--repair", f"--dataset.root={tmp_path / 'no'}", f"--output={tmp_path / 'x'}") == 2
    assert "is not a LeRobot dataset" in capsys.readouterr().err


def test_long_lists_of_episodes_are_cut():
    table = repairs_table("a", [Repair("a", "b", "c", tuple(range(20))), Repair("a", "b", "d")])
    assert list(table.columns[3].cells) == ["0, 1, 2, 3, 4, 5, 6, 7 and 12 more", "all"]
