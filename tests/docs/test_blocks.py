"""Every fenced command and Python block runs in its CPU form, or is marked with what it needs."""

import re
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox import Sandbox, as_commands, build_template, published
from stand_ins import write_programs

ROOT = Path(__file__).resolve().parents[2]
PAGES = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["read_pages"]()
RUN_PAGES = [page for page in PAGES if page.path.name != "CONTRIBUTING.md"]
LANGUAGES = ("bash", "diff", "python")
SERVICES = {
    "2 GPUs": "two GPUs and NCCL",
    "2 machines": "a second machine",
    "an NVIDIA GPU": "nvidia-smi, and programs that call it",
    "ALOHA's simulator": "gym-aloha, MuJoCo and a renderer",
    "LeRobot 0.6.1": "its own environment, made by make interop",
    "an environment of your own": "a package that registers it with gymnasium",
    "Kubernetes": "a cluster with GPUs",
    "SLURM": "a cluster, and a job that runs on it",
    "SkyPilot": "its program, and an account with a cloud",
}
"""What a block may be marked with, and why that cannot be had on any machine."""


def runnable(page: Any) -> list[Any]:
    return [block for block in page.fenced if block.language in LANGUAGES]


def test_every_mark_names_a_known_service() -> None:
    marks = {(page.name, block.needs) for page in PAGES for block in page.fenced if block.needs}
    assert {needs for _, needs in marks} <= SERVICES.keys(), marks
    written = {
        page.name: len(re.findall(r"^<!-- needs:", page.text, re.MULTILINE)) for page in PAGES
    }
    stray = [page.name for page in PAGES if written[page.name] != num_marks(page)]
    assert not stray, f"a mark stands directly above its block: {stray}"


def num_marks(page: Any) -> int:
    return sum(bool(block.needs) for block in page.fenced)


@pytest.fixture(scope="session")
def template(
    tmp_path_factory: pytest.TempPathFactory, tiny_vlm: Path, flags_of_smolvla: tuple[str, ...]
) -> Path:
    """Datasets, runs and policies that commands name."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "tiny_vlm").symlink_to(tiny_vlm)
    build_template(folder, flags_of_smolvla)
    return folder


@pytest.fixture(scope="session")
def flags_of_smolvla() -> tuple[str, ...]:
    """Flags of a SmolVLA as small as one can be."""
    return tuple(runpy.run_path(str(ROOT / "tests/real_runs/run_flags.py"))["SMOLVLA"])


@pytest.fixture
def sandbox(template: Path, tmp_path: Path, hub: Any) -> Iterator[Sandbox]:
    """A folder to run the blocks of a page in, and a Hub with a policy to start from."""
    repo = runpy.run_path(str(ROOT / "tests/hub_server.py"))["Repo"]
    hub.repos["lerobot/smolvla_base"] = repo(private=False, commits=[published(template)])
    return Sandbox.make(tmp_path / "sandbox", template, hub.environ(tmp_path / "hub"))


@pytest.mark.documents
@pytest.mark.process
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(
    page: Any, sandbox: Sandbox, record_property: Callable[[str, object], None]
) -> None:
    counts, faults = run_blocks(page, sandbox)
    record_property("documents", dict(counts))
    assert not faults, "\n\n".join(faults)


def run_blocks(page: Any, sandbox: Sandbox) -> tuple[Counter[str], list[str]]:
    """Run the blocks of a page; count commands by what became of them, and name what failed."""
    counts: Counter[str] = Counter()
    faults = []
    for block in runnable(page):
        if block.needs:
            counts[f"needs {block.needs}"] += num_commands(block)
            continue
        sandbox.restore()
        text = as_commands(block.language, block.text)
        code, printed, commands = sandbox.run(block.language, text)
        counts.update(row["outcome"] for row in commands)
        if code != 0 or not commands:
            told = commands[-1]["words"] if commands else block.text
            faults.append(f"{page.name}:{block.line}: exit {code} of {told}\n{printed[-3000:]}")
    return counts, faults


def num_commands(block: Any) -> int:
    """Commands of a marked block: its lines, continued ones and comments not counted."""
    if block.language == "python":
        return 1
    lines = block.text.replace("\\\n", " ").splitlines()
    return sum(bool(line.strip()) and not line.startswith(("#", "-")) for line in lines)


PLANTED = """Words.

```bash
pip install -e '.[smolvla]'
make test
```

```bash
pip install 'manyhands[nothing]'
make test
```

<!-- needs: 2 GPUs -->
```bash
nvidia-smi    # twice
nvidia-smi \\
    dmon
```

```bash
unknown-program --flag
```
"""


def test_a_command_that_fails_is_named_and_a_marked_one_is_counted(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    write_programs(tmp_path / "bin")
    page = type(PAGES[0])(ROOT / "docs/planted.md", PLANTED)
    counts, faults = run_blocks(page, Sandbox(tmp_path, tmp_path.parent / "none", {}))
    assert counts == {"checked": 3, "needs 2 GPUs": 2}
    assert len(faults) == 2
    assert faults[0].startswith("docs/planted.md:8: exit 1 of ['pip', 'install', 'manyhands[noth")
    assert "no extra nothing" in faults[0]
    assert faults[1].startswith("docs/planted.md:20: exit 127 of unknown-program")
