"""Compares an interrupted run with an uninterrupted one, bit for bit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyhands.config.runs.run_dir import CHECKPOINTS, LAST, list_checkpoints, newest_intact
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import RNG_FILE
from manyhands.lerobot_format.files import read_tensors
from manyhands.observe.jsonl import read_rows

STATE_FILES = ("training_step.json", "scheduler_state.json", "manyhands.json")
"""Files with the progress of a run; configurations contain folders, and differ."""
MEASURES = ("loss", "lr", "grad_norm")
"""Columns of metrics.jsonl without timings; loss terms have the suffix _loss."""


def run_differences(reference: Path, run_dir: Path) -> Iterator[str]:
    """Yield the differences of a finished run from the uninterrupted one."""
    step = last_step(reference)
    if last_step(run_dir) != step:
        yield f"{run_dir / CHECKPOINTS / LAST} is of step {last_step(run_dir)}, not of {step}"
        return
    yield from checkpoint_differences(
        (reference / CHECKPOINTS / LAST).resolve(), (run_dir / CHECKPOINTS / LAST).resolve()
    )
    for file in sorted((reference / "audit").iterdir()):
        yield from row_differences(file, run_dir / "audit" / file.name)
    yield from row_differences(reference / "metrics.jsonl", run_dir / "metrics.jsonl")


def interim_differences(reference: Path, run_dir: Path) -> Iterator[str]:
    """Yield faults in the checkpoints that a killed run would resume from."""
    link = run_dir / CHECKPOINTS / LAST
    if link.is_symlink() and not link.exists():
        yield f"{link} points at {link.readlink()}, which is missing"
    try:
        newest = newest_intact(run_dir)
    except CheckpointError as error:
        yield str(error)
        return
    if newest is None:
        return
    known = {path.name: path for path in list_checkpoints(reference)}
    # A stopped run saves at any step.
    if newest.name in known:
        yield from checkpoint_differences(known[newest.name], newest)


def last_step(run_dir: Path) -> int:
    """The step of the checkpoint `last`; zero without one."""
    link = run_dir / CHECKPOINTS / LAST
    return int(link.resolve().name) if link.exists() else 0


def checkpoint_differences(reference: Path, checkpoint: Path) -> Iterator[str]:
    """Yield differing tensors and counters of two checkpoints."""
    # RNG state is saved for LeRobot only: here random numbers follow from the step.
    files = [path for path in reference.rglob("*.safetensors") if path.name != RNG_FILE]
    for file in sorted(files):
        other = checkpoint / file.relative_to(reference)
        yield from tensor_differences(file, other) if other.exists() else [f"{other} is missing"]
    for file in (path for name in STATE_FILES for path in reference.rglob(name)):
        other = checkpoint / file.relative_to(reference)
        if not other.exists() or json.loads(other.read_text()) != json.loads(file.read_text()):
            yield f"{other} differs from {file}"


def tensor_differences(reference: Path, file: Path) -> Iterator[str]:
    """Yield tensors of two files that differ in any bit."""
    known, found = read_tensors(reference), read_tensors(file)
    if known.keys() != found.keys():
        yield f"{file} has other tensors than {reference}: {sorted(known.keys() ^ found.keys())}"
    for name in known.keys() & found.keys():
        one, other = known[name], found[name]
        if one.dtype != other.dtype or one.shape != other.shape:
            yield f"{file}: {name} is {other.dtype} {[*other.shape]}"
        elif not torch.equal(bits_of(one), bits_of(other)):
            most = (one.double() - other.double()).abs().max().item()
            yield f"{file}: {name} differs by up to {most:.3g}"


def bits_of(value: Tensor) -> Tensor:
    """The bytes of a tensor, so that NaN values compare too."""
    return value.reshape(-1).view(torch.uint8)


def row_differences(reference: Path, file: Path) -> Iterator[str]:
    """Yield the first row that differs between two files."""
    known, found = _rows(reference), _rows(file)
    if len(known) != len(found):
        yield f"{file} has {len(found)} rows, not {len(known)}"
    for number, (one, other) in enumerate(zip(known, found, strict=False), start=1):
        if one != other:
            yield f"{file}: row {number} is {other}, not {one}"
            return


def _rows(file: Path) -> list[dict[str, Any]]:
    """The reproducible columns of all rows."""
    rows = list(read_rows(file)) if file.exists() else []
    return [{name: row[name] for name in row if _is_exact(name)} for row in rows]


def _is_exact(name: str) -> bool:
    return name in ("step", "indices", *MEASURES) or name.endswith("_loss")
