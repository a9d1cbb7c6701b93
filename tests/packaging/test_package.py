"""Wheel and source distribution install into empty environments and work there."""

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from manyhands.version import VERSION

pytestmark = [pytest.mark.package, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
# Building changes sys.argv.
BUILD = """
import sys, setuptools.build_meta as backend
(folder,) = sys.argv[1:]
backend.build_sdist(folder), backend.build_wheel(folder)
"""


class Place:
    """A virtual environment, used from a folder without the sources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment; its output is shown if it fails."""
        command = [str(self.folder / "venv" / "bin" / program), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=800
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, *names: str) -> None:
        """Install packages at the versions that the tests use."""
        constraints = str(ROOT / "constraints.txt")
        self.run("python", "-m", "pip", "install", "--quiet", "-c", constraints, *names)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built from what git tracks."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    place = Place(folder)
    place.run("python", "-m", "pip", "install", "--quiet", "setuptools>=77")
    program = [str(folder / "venv" / "bin" / "python"), "-c", BUILD, str(folder)]
    subprocess.run(program, cwd=tree, capture_output=True, check=True, timeout=300)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_a_wheel_installs_and_trains_without_extras(built, tmp_path):
    place = Place(tmp_path)
    place.install(str(only(built, "*.whl")))
    assert place.run("manyhands", "--version").strip() == f"manyhands {VERSION}"
    assert "manyhands train" in place.run("python", "-m", "manyhands", "--help")
    place.run("manyhands", "demo", "--fast", "--output_dir=demo")
    loaded = "import manyhands; print(manyhands.load_policy('demo/run'))"
    assert place.run("python", "-c", loaded).startswith("Policy(act")
    assert "manyhands[report]" in open_loop(place) and not [*tmp_path.rglob("open_loop.png")]


def test_an_extra_adds_plots(built, tmp_path):
    place = Place(tmp_path)
    place.install(f"{only(built, '*.whl')}[report]")
    place.run("manyhands", "demo", "--fast", "--output_dir=demo")
    open_loop(place)
    assert [*tmp_path.rglob("open_loop.png")]


def open_loop(place: Place) -> str:
    """Evaluate the demo's policy on the episodes it was trained on."""
    (info,) = (place.folder / "demo").rglob("meta/info.json")
    flags = ("--policy.path=demo/run", "--output_dir=open_loop", "--dataset.episodes=[0]")
    return place.run("manyhands", "eval", f"--dataset.root={info.parents[1]}", *flags)


def test_the_source_distribution_installs_the_same_files(built, tmp_path):
    place = Place(tmp_path)
    place.run("python", "-m", "pip", "install", "--quiet", "setuptools>=77")
    source = str(only(built, "*.tar.gz"))
    place.run("python", "-m", "pip", "install", "--quiet", "--no-deps", source)
    places = place.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    installed = Path(places.strip())
    wheel = {name for name in ZipFile(only(built, "*.whl")).namelist() if "dist-info" not in name}
    assert {name for name in wheel if not (installed / name).is_file()} == set()
    assert {"manyhands/py.typed", "manyhands_bench/main.py"} <= wheel
    assert not [name for name in wheel if re.match(r"tests?/", name)]


def test_the_version_is_stated_once():
    assert VERSION not in (ROOT / "pyproject.toml").read_text()
    assert sys.version_info >= (3, 11)
