"""README, CONTRIBUTING and the pages in docs and examples as tests read them."""

import re
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARKED = re.compile(r"(?:^<!-- needs: (.+?) -->\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    line: int
    language: str
    text: str
    needs: str
    """Hardware, program or service without which it cannot run; empty for none."""


@dataclass(frozen=True)
class Page:
    """A page of documentation."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Where it is in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def prose(self) -> str:
        """Everything but fenced blocks."""
        return FENCE.sub("", self.text)

    @property
    def inline_code(self) -> list[str]:
        """Code within prose."""
        return INLINE.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """Headings as GitHub links to them."""
        return {anchor(heading) for heading in HEADING.findall(self.prose)}

    @property
    def fenced(self) -> list[Block]:
        """Every fenced block, with its mark."""
        return [
            Block(self.text.count("\n", 0, found.start(2)) + 1, found[2], found[3], found[1] or "")
            for found in MARKED.finditer(self.text)
        ]

    def blocks(self, *languages: str) -> list[str]:
        """Fenced blocks of these languages."""
        return [block for language, block in FENCE.findall(self.text) if language in languages]


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def read_pages() -> list[Page]:
    """Every page, the README first."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    files += sorted((ROOT / "examples").rglob("*.md"))
    return [Page(file, file.read_text(encoding="utf-8")) for file in files]


@pytest.fixture(scope="session")
def pages() -> list[Page]:
    """Every page, the README first."""
    return read_pages()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def reference() -> SimpleNamespace:
    """The generator of docs/cli.md."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "cli_reference.py")))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write files into a new folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(**files: str) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return write


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count what the blocks of all pages were."""
    reports = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    counts: Counter[str] = Counter()
    for report in reports:
        for name, value in report.user_properties:
            counts.update(value if name == "documents" else {})
    if not counts:
        return
    marked = {name: number for name, number in counts.items() if name.startswith("needs ")}
    terminalreporter.section("commands of the documents")
    terminalreporter.line(f"{counts['ran']:4} run in their CPU form")
    terminalreporter.line(f"{counts['checked']:4} checked without being run (pip, make, sbatch)")
    terminalreporter.line(f"{sum(marked.values()):4} marked with what they need:")
    for name, number in sorted(marked.items(), key=lambda item: -item[1]):
        terminalreporter.line(f"{number:8} {name.removeprefix('needs ')}")
