"""The tutorial's notebook is its page, and runs."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest


def test_the_notebook_is_what_the_page_generates(root: Path) -> None:
    generated = runpy.run_path(str(root / "tools" / "tutorial_notebook.py"))["notebook"]()
    written = (root / "examples" / "tutorial.ipynb").read_text(encoding="utf-8")
    assert written == generated, "run `make docs` and commit examples/tutorial.ipynb"


def test_every_command_of_the_page_is_in_the_notebook(root: Path) -> None:
    document = json.loads((root / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]
    page = (root / "docs" / "tutorial.md").read_text(encoding="utf-8")
    commands = [line for line in page.splitlines() if line.startswith("manyhands ")]
    assert len(commands) >= 9
    assert not [line for line in commands if not any(line in cell for cell in code)]


@pytest.mark.documents
@pytest.mark.timeout(900)
def test_the_notebook_runs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="make docs-test installs nbclient")
    nbformat = pytest.importorskip("nbformat")
    for name in ("recipes", "configs"):
        shutil.copytree(root / name, tmp_path / name)
    programs = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", programs, prepend=":")
    document = nbformat.read(root / "examples" / "tutorial.ipynb", as_version=4)
    # A few steps of few episodes, in place of minutes.
    for cell in document.cells:
        shorter = cell.source.replace("--episodes=100", "--episodes=12")
        shorter = shorter.replace("--eval.n_episodes=50", "--eval.n_episodes=2")
        cell.source = shorter.replace(
            "--output_dir=outputs/tray --", "--steps=4 --output_dir=outputs/tray --"
        )
    client = nbclient.NotebookClient(
        document, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    last = [cell for cell in document.cells if cell.cell_type == "code"][-1]
    assert "Policy(act" in last.outputs[0].text
    assert (tmp_path / "outputs" / "tray" / "report.html").is_file()
