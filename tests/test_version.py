"""The version is known with and without an installation."""

import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, version
from pathlib import Path

import pytest

import manyhands
from manyhands.checkpoint.snapshot import Snapshot
from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.policies.act import ActConfig
from manyhands.config.train import TrainConfig
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.manifest import read_manifest
from manyhands.observe.machine import software_versions
from manyhands.parallel.world import joined_world
from manyhands.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
STATE = TrainingState(1, 8, 1, 8, 1, optimizer={"state": {}, "param_groups": []})


@pytest.fixture
def no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    find = Distribution.from_name

    def found(name: str) -> Distribution:
        if name == "manyhands":
            raise PackageNotFoundError(name)
        return find(name)

    monkeypatch.setattr(Distribution, "from_name", found)


@pytest.mark.usefixtures("no_metadata")
def test_a_source_tree_without_metadata_saves_and_knows_its_version(tmp_path: Path) -> None:
    config = TrainConfig(policy=ActConfig(device="cpu"), steps=1)
    with joined_world(config) as world:
        CheckpointWriter(tmp_path, config, world, Snapshot({}, STATE)).write({})
    facts, _ = read_manifest(tmp_path / "checkpoints/000001")
    versions = facts["versions"]["manyhands"], software_versions()["manyhands"]
    assert versions == (VERSION, VERSION) == (manyhands.__version__,) * 2


def test_an_installation_has_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    source = project["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    assert source == "manyhands.version.VERSION"
    try:
        assert version("manyhands") == VERSION
    except PackageNotFoundError:
        pytest.skip("not installed")
