"""Datasets as people have them train after at most one hint that is followed literally."""

import re
import shlex
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from following import Follower, hints
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from specimens import VERSIONS, Dataset, faults, record_pairs
from specimens import rewrite_as_version_2 as rewritten

from manyhands.cli.convert import ConvertConfig, convert_command
from manyhands.config.resolve import read_train_config
from manyhands.errors import UserError
from manyhands.lerobot_format.dataset.fetching import AGAIN
from manyhands.training.setup.data import alone, open_training_data

TARGET = 0.95
REPAIR = "manyhands convert --repair --dataset.root="
REPAIRED = {"other numbering", "unknown tasks", "removed episode"}
"""Faults whose way out is a repaired copy."""
CAN_REPAIR = "repair" in {each.name for each in fields(ConvertConfig)}
ENDS = ("at once", "one hint", "repair")
FAULTS = list(faults())
CASES = [(fault, version) for fault in FAULTS for version in fault.versions]
NEWEST = [(fault, fault.versions[-1]) for fault in FAULTS]
"""Every fault once; in older versions its message is nearly always the same."""


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The complete dataset by version."""
    folder = tmp_path_factory.mktemp("zoo")
    new = record_pairs(folder / "new")
    return {"v3.0": new, "v2.1": rewritten(folder / "apart", folder / "old")}


def started(argv: list[str]) -> tuple[str, bool]:
    """What is said about a dataset, and whether every sample of it can be read."""
    try:
        config = read_train_config(argv)
        data, _ = open_training_data(config, alone)
        data.source.batch(data.order.rows())
    except UserError as error:
        return str(error), False
    return "\n".join(data.notes), True


def repaired(hint: str) -> list[str]:
    """Run the command that repairs a copy; returns the flags of a run on it."""
    flags = shlex.split(hint)[2:]
    assert convert_command(flags) == 0
    (output,) = (each.partition("=")[2] for each in flags if each.startswith("--output_dir="))
    return ["--policy=act", f"--dataset.root={output}"]


def tried(name: str, argv: list[str], follower: Follower) -> tuple[str, str]:
    """What is said first, and how it ends: at once, one hint, repair or refused."""
    message, is_started = started(argv)
    if is_started:
        return message, "at once"
    offered = hints(message)
    assert offered, f"{name}: no hint in\n{message}"
    if offered[0].startswith(REPAIR):
        if not CAN_REPAIR:
            return message, "repair"
        argv = repaired(offered[0])
    else:
        argv = follower.follow(offered[0], argv)
    again, is_started = started(argv)
    return message, "one hint" if is_started else f"refused: {offered[0]}\n{again}"


def specimen(fault: Any, version: str, originals: dict[str, Path], folder: Path) -> list[str]:
    """The flags of a run on a damaged copy."""
    root = Path(shutil.copytree(originals[version], folder / "data set"))
    fault.damage(Dataset(root, version))
    return ["--policy=act", f"--dataset.root={root}", *fault.flags]


@pytest.mark.long
@pytest.mark.parametrize(
    "cases",
    [pytest.param(NEWEST, id="newest"), pytest.param(CASES, id="all", marks=pytest.mark.soak)],
)
def test_every_fault_is_named_and_its_first_hint_leads_to_training(
    originals, tmp_path, capsys, cases
):
    ends, wrong = [], []
    for number, (fault, version) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        follower = Follower(folder / "bin", originals[version])
        follower.prepare()
        name = f"{fault.name}, {version}"
        argv = specimen(fault, version, originals, folder)
        message, end = tried(name, argv, follower)
        ends.append((fault.name, end))
        if not re.search(fault.cause, message):
            wrong.append(f"{name}: {fault.cause!r} is not in\n{message}")
        needs_repair = end != "at once" and hints(message)[0].startswith(REPAIR)
        if needs_repair != (fault.name in REPAIRED) or end.startswith("refused"):
            wrong.append(f"{name}: {end}, after\n{message}")
        shutil.rmtree(folder)
    num_trained = sum(end in ("at once", "one hint") for _, end in ends)
    share = num_trained / len(ends)
    with capsys.disabled():
        counts = [f"{sum(end == each for _, end in ends)} {each}" for each in ENDS]
        total = f"{len(FAULTS)} faults in {len(ends)} datasets"
        print(f"\nzoo: {total}: {', '.join(counts)}; {share:.1%} train")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n\n".join(wrong)
    assert share >= TARGET


NUM_HINTS = 4


@given(
    names=st.lists(st.sampled_from([each.name for each in FAULTS]), min_size=2, max_size=3),
    version=st.sampled_from(VERSIONS),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_several_faults_at_once_end_in_training_or_a_repair(originals, names, version):
    chosen = [fault for fault in FAULTS if fault.name in names and version in fault.versions]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(shutil.copytree(originals[version], Path(folder, "data set")))
        follower = Follower(Path(folder, "bin"), originals[version])
        follower.prepare()
        try:
            for fault in chosen:
                fault.damage(Dataset(root, version))
        except (OSError, ValueError, KeyError, pa.ArrowException):
            reject()  # One fault left nothing for the other to happen to.
        argv = ["--policy=act", f"--dataset.root={root}"]
        for _ in range(NUM_HINTS):
            message, is_started = started(argv)
            offered = hints(message)
            if is_started or not offered or offered[0].startswith(REPAIR):
                break
            argv = follower.follow(offered[0], argv)
        ends_well = is_started or (offered[0].startswith(REPAIR) if offered else AGAIN in message)
        assert ends_well, message
