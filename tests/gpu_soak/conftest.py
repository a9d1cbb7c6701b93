"""Runs that live through everything on one GPU, and a table of what came of them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real_runs"))

from run_report import document, failure
from soak_life import Life, Plan, Result
from soak_recipes import Recipe
from soak_report import add_result, read_results, table


@pytest.fixture
def soaked(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Recipe, Plan], Result]:
    """Lead a recipe through its life, and add its result to those of all processes."""
    folder = Path(request.config.getoption("--soak-results"))

    def soak(recipe: Recipe, plan: Plan) -> Result:
        vlm = request.getfixturevalue("tiny_vlm") if recipe.needs_vlm else None
        life = Life(recipe, tmp_path / recipe.name, plan, vlm)
        try:
            return life.result()
        except Exception as error:
            life.found.outcome = failure(error)
            raise
        finally:
            add_result(folder, life.found)

    return soak


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of all results; with xdist this runs in the process that collects them."""
    folder = Path(config.getoption("--soak-results"))
    results = read_results(folder)
    if config.getoption("markexpr") != "gpu_soak" or not results:
        return
    file = folder / "gpu_soak.json"
    file.write_text(document(results), encoding="utf-8")
    terminalreporter.section("soak test on a GPU")
    terminalreporter.write_line(table(results))
    terminalreporter.write_line(f"written to {file}: attach it to a bug report")
