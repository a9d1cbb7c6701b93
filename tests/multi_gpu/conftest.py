"""Runs on several devices, and a table of what came of them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real_runs"))

from multi_gpu_cases import DATASET, Case
from multi_gpu_runs import Result, Runs, table_of
from run_report import document, failure

RESULTS: list[Result] = []


@pytest.fixture(scope="session")
def multi_gpu_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic episodes with a camera."""
    return DATASET.write(tmp_path_factory.mktemp("data") / "synthetic")


@pytest.fixture(scope="session")
def gpu_runs(tmp_path_factory: pytest.TempPathFactory, multi_gpu_dataset: Path) -> Runs:
    """Runs on GPUs."""
    return Runs(tmp_path_factory.mktemp("gpu"), multi_gpu_dataset, "cuda")


@pytest.fixture
def recorded() -> Callable[[Case, Callable[[], Result]], Result]:
    """Runs a case and keeps its result for the table, whatever it is."""

    def run(case: Case, work: Callable[[], Result]) -> Result:
        try:
            RESULTS.append(work())
            return RESULTS[-1]
        except pytest.skip.Exception as reason:
            RESULTS.append(Result(case.name, f"skipped: {reason}"))
            raise
        except Exception as error:
            RESULTS.append(Result(case.name, failure(error)))
            raise

    return run


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table, and write the file that is to be attached to a report."""
    if not RESULTS or not torch.cuda.is_available():
        return
    file = Path(config.getoption("--multi-gpu-json", "multi_gpu.json"))
    file.write_text(document(RESULTS), encoding="utf-8")
    terminalreporter.section("several GPUs")
    terminalreporter.write_line(table_of(RESULTS))
    terminalreporter.write_line(f"written to {file}: attach it to a bug report")
