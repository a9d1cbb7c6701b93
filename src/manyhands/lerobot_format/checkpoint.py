"""The `training_state/` folder of a checkpoint, as LeRobot writes and reads it.

```
training_state/
  training_step.json            finished steps, and their batch size
  optimizer_state.safetensors   state/<parameter index>/<name>, unless it is saved in shards
  optimizer_param_groups.json   hyper-parameters of each group
  scheduler_state.json          only with a schedule
  rng_state.safetensors         for LeRobot; here every draw is a function of the step
  manyhands.json                samples consumed, samples per step, loss scale
```
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhands.config.runs.run_dir import OWN_FILE
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_json, read_tensors, write_json, write_tensors

STEP_FILE = "training_step.json"
OPTIMIZER_TENSORS = "optimizer_state.safetensors"
OPTIMIZER_GROUPS = "optimizer_param_groups.json"
SCHEDULER_FILE = "scheduler_state.json"
RNG_FILE = "rng_state.safetensors"
STATE_KEY = re.compile(r"state/(?P<index>\d+)/\w+")


@dataclass(frozen=True)
class ScheduleState:
    """Learning rates of each group: as configured, and as last used."""

    base_lrs: list[float]
    last_lrs: list[float]


@dataclass(frozen=True)
class TrainingState:
    """Everything besides the weights that a run needs to resume."""

    step: int
    samples: int
    num_ranks: int
    batch_size: int
    accumulation: int
    optimizer: dict[str, Any]  # An optimizer's `state_dict`
    schedule: ScheduleState | None = None
    scaler: dict[str, float] = field(default_factory=dict)
    samples_per_step: int = 0  # Samples per step over all ranks; zero if not stored
    is_sharded: bool = False  # Whether the optimizer's tensors are elsewhere, in shards


def write_training_state(folder: Path, state: TrainingState) -> None:
    """Write all files of the folder, which must exist."""
    write_json(folder / STEP_FILE, _step_document(state), indent=4)
    if not state.is_sharded:
        write_tensors(folder / OPTIMIZER_TENSORS, flat_state(state.optimizer["state"]))
    groups = json.dumps(_group_documents(state), indent=4)
    (folder / OPTIMIZER_GROUPS).write_text(groups, encoding="utf-8")
    if state.schedule is not None:
        write_json(folder / SCHEDULER_FILE, _schedule_document(state), indent=4)
    write_tensors(folder / RNG_FILE, _rng_tensors())
    own = {"samples": state.samples, "samples_per_step": state.samples_per_step}
    own_ways = {"scaler": state.scaler, "is_sharded": state.is_sharded}
    write_json(folder / OWN_FILE, {**own, **own_ways}, indent=4)


def read_training_state(folder: Path) -> TrainingState:
    """Read a folder written here or by LeRobot."""
    progress = read_progress(folder)
    tensors = {} if progress.is_sharded else read_tensors(folder / OPTIMIZER_TENSORS)
    state, path = nested_state(tensors, folder / OPTIMIZER_TENSORS), folder / OPTIMIZER_GROUPS
    try:
        groups = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    return replace(progress, optimizer={"state": state, "param_groups": groups})


def read_progress(folder: Path) -> TrainingState:
    """Read the progress of a run, without its optimizer."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is missing: the checkpoint cannot be resumed")
    document = read_json(folder / STEP_FILE)
    own = read_json(folder / OWN_FILE) if (folder / OWN_FILE).exists() else {}
    try:
        step = int(document["step"])
        num_ranks = int(document.get("dp_world_size", document.get("num_processes", 1)))
        batch_size = int(document.get("batch_size", 0))
        accumulation = int(document.get("grad_accum_steps", 1))
        # LeRobot counts micro-batches as steps, so its position needs no accumulation factor.
        samples = int(own.get("samples", step * batch_size * num_ranks))
        product = num_ranks * batch_size * accumulation
        samples_per_step = int(own.get("samples_per_step", product))
        scaler = {str(name): value for name, value in own.get("scaler", {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / STEP_FILE} or {OWN_FILE} beside it is damaged: {error!r}"
        ) from None
    if step < 0 or samples < 0:
        raise CheckpointError(f"{folder / STEP_FILE} counts {step} steps, {samples} samples")
    return TrainingState(
        step=step,
        samples=samples,
        num_ranks=num_ranks,
        batch_size=batch_size,
        accumulation=accumulation,
        optimizer={},
        scaler=scaler,
        samples_per_step=samples_per_step,
        is_sharded=bool(own.get("is_sharded", False)),
    )


def flat_state(state: Mapping[int, Mapping[str, Any]]) -> dict[str, Tensor]:
    """Flatten the optimizer state of each weight, by LeRobot's names."""
    return {
        f"state/{index}/{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
    }


def nested_state(tensors: Mapping[str, Tensor], file: Path) -> dict[int, dict[str, Tensor]]:
    """Nest the optimizer state by weight, from LeRobot's names in a file."""
    state: defaultdict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, tensor in tensors.items():
        index = parameter_index(key)
        if index is None:
            raise CheckpointError(f"{file} contains an unknown tensor {key}")
        state[index][key.rpartition("/")[2]] = tensor
    return dict(state)


def parameter_index(key: str) -> int | None:
    """The parameter index in the name of an optimizer tensor; None for other tensors."""
    match = STATE_KEY.fullmatch(key)
    return int(match["index"]) if match else None


def _step_document(state: TrainingState) -> dict[str, Any]:
    degrees = {"dp_replicate": state.num_ranks, "dp_shard": 1}
    return {
        "step": state.step,
        "dp_world_size": state.num_ranks,
        "batch_size": state.batch_size,
        "grad_accum_steps": state.accumulation,
        "parallelism": {**degrees, "ring_degree": 1, "ulysses_degree": 1},
    }


def _group_documents(state: TrainingState) -> list[dict[str, Any]]:
    """The optimizer's groups; with a schedule they contain the rates from which LeRobot resumes."""
    groups: list[dict[str, Any]] = state.optimizer["param_groups"]
    if state.schedule is None:
        return groups
    rates = zip(state.schedule.last_lrs, state.schedule.base_lrs, strict=True)
    return [
        group | {"lr": lr, "initial_lr": base}
        for group, (lr, base) in zip(groups, rates, strict=True)
    ]


def _schedule_document(state: TrainingState) -> dict[str, Any]:
    assert state.schedule is not None
    return {
        "base_lrs": state.schedule.base_lrs,
        "last_epoch": state.step,
        "_step_count": state.step + 1,
        "_is_initial": False,
        "_get_lr_called_within_step": False,
        "_last_lr": state.schedule.last_lrs,
        "lr_lambdas": [None] * len(state.schedule.base_lrs),
    }


def _rng_tensors() -> dict[str, Tensor]:
    version, python_state, _ = random.getstate()
    _, values, position, has_gauss, gauss = np.random.get_state(legacy=True)
    tensors = {
        "py_rng_version": torch.tensor([version]),
        "py_rng_state": torch.tensor(python_state),
        "np_rng_state_values": torch.from_numpy(np.asarray(values, np.int64)),
        "np_rng_state_index": torch.tensor([position]),
        "np_rng_has_gauss": torch.tensor([has_gauss]),
        "np_rng_cached_gaussian": torch.tensor([gauss], dtype=torch.float32),
        "torch_rng_state": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        tensors["torch_cuda_rng_state"] = torch.cuda.get_rng_state()
    return tensors
