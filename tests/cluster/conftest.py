"""Hosts and a SLURM cluster, made of namespaces on this machine."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hosts import Host, two_hosts, why_not
from slurm_cluster import Cluster, slurm_cluster


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need SLURM installed run only when `-m slurm` asks for them."""
    if "slurm" not in config.option.markexpr:
        marked = [item for item in items if item.get_closest_marker("slurm")]
        items[:] = [item for item in items if item not in marked]
        config.hook.pytest_deselected(items=marked)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    """Two hosts with a cable between them."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no hosts can be made here: {reason}")
    with two_hosts(tmp_path_factory.mktemp("hosts")) as pair:
        yield pair


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A SLURM cluster of two nodes."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running
