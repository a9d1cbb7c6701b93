"""LeRobot in its own process, and the table of everything that was compared with it."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
# What both sides do alike lies with the program that the other one runs.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "interop"))

from comparison import Comparison, Row, table
from lerobot_process import LeRobot

FOLDER = Path(__file__).resolve().parent
LEROBOT_PYTHON = FOLDER.parents[1] / ".venv-lerobot" / "bin" / "python"
ROWS = pytest.StashKey[list[Row]]()
VERSIONS = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where LeRobot is."""
    told = "a Python that has LeRobot installed; without it, the one `make interop` made"
    parser.addoption("--lerobot-python", type=Path, default=None, help=told)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """These tests need a second environment, so they run only when `-m interop` asks for them."""
    own = [item for item in items if item.path.is_relative_to(FOLDER)]
    for item in own:
        item.add_marker(pytest.mark.interop)
    if "interop" not in config.option.markexpr:
        items[:] = [item for item in items if item not in own]
        config.hook.pytest_deselected(items=own)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show every quantity that was compared."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    num_within = sum(row.is_within for row in rows)
    terminalreporter.section(f"compared with {config.stash.get(VERSIONS, 'LeRobot')}")
    for line in table(rows):
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"{num_within} of {len(rows)} quantities agree")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are added up in the same order on both sides."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="session")
def lerobot(pytestconfig: pytest.Config) -> Iterator[LeRobot]:
    """LeRobot, to be asked."""
    python = pytestconfig.getoption("--lerobot-python", default=None) or LEROBOT_PYTHON
    if not python.exists():
        pytest.fail(f"{python} is missing; run `make interop`, or name it by --lerobot-python")
    with LeRobot(python) as process:
        found = process("versions")
        pytestconfig.stash[VERSIONS] = ", ".join(f"{key} {each}" for key, each in found.items())
        yield process


@pytest.fixture
def compared(pytestconfig: pytest.Config) -> Iterator[Comparison]:
    """Compares, and keeps it for the table."""
    comparison = Comparison()
    yield comparison
    pytestconfig.stash.setdefault(ROWS, []).extend(comparison.rows)


@pytest.fixture(scope="session")
def vlms(
    tiny_vlm: Path, lerobot: LeRobot, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Folders of a tiny vision-language model that both sides read, by the type of its words."""
    folders = {name: tmp_path_factory.mktemp(name) / "vlm" for name in ("float32", "bfloat16")}
    for name, folder in folders.items():
        shutil.copytree(tiny_vlm, folder)
        document = json.loads((folder / "config.json").read_text())
        document["text_config"]["dtype"] = name
        (folder / "config.json").write_text(json.dumps(document))
        lerobot("complete_vlm", folder=folder)
    return folders
