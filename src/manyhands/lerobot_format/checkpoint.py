"""The `training_state/` folder of a checkpoint, as LeRobot writes and resumes it.

```
training_state/
  training_step.json            updates made, and the batch they were made with
  optimizer_state.safetensors   state/<parameter index>/<name>
  optimizer_param_groups.json   hyper-parameters of each group
  scheduler_state.json          only with a schedule
  rng_state.safetensors         for LeRobot; here every draw is a function of the step
  manyhands.json                samples consumed, loss scale
```
"""

import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhands.errors import CheckpointError
from manyhands.lerobot_format.files import read_json, read_tensors, write_json, write_tensors

STEP_FILE = "training_step.json"
OPTIMIZER_TENSORS = "optimizer_state.safetensors"
OPTIMIZER_GROUPS = "optimizer_param_groups.json"
SCHEDULER_FILE = "scheduler_state.json"
RNG_FILE = "rng_state.safetensors"
OWN_FILE = "manyhands.json"
STATE_KEY = re.compile(r"state/(?P<index>\d+)/(?P<name>\w+)")


@dataclass(frozen=True)
class ScheduleState:
    """Learning rates of each group: as configured, and as last used."""

    base_lrs: list[float]
    last_lrs: list[float]


@dataclass(frozen=True)
class TrainingState:
    """Everything beside the weights that a run needs to go on."""

    step: int
    samples: int
    num_ranks: int
    batch_size: int
    accumulation: int
    optimizer: dict[str, Any]
    """An optimizer's `state_dict`."""
    schedule: ScheduleState | None = None
    scaler: dict[str, float] = field(default_factory=dict)

    @property
    def samples_per_step(self) -> int:
        """Samples of one update over all ranks; zero where that was not written down."""
        return self.num_ranks * self.batch_size * self.accumulation


def write_training_state(folder: Path, state: TrainingState) -> None:
    """Write all files of the folder, which must exist."""
    write_json(folder / STEP_FILE, _step_document(state), indent=4)
    tensors = {
        f"state/{index}/{name}": torch.as_tensor(value)
        for index, values in state.optimizer["state"].items()
        for name, value in values.items()
    }
    write_tensors(folder / OPTIMIZER_TENSORS, tensors)
    groups = json.dumps(_group_documents(state), indent=4)
    (folder / OPTIMIZER_GROUPS).write_text(groups, encoding="utf-8")
    if state.schedule is not None:
        write_json(folder / SCHEDULER_FILE, _schedule_document(state), indent=4)
    write_tensors(folder / RNG_FILE, _rng_tensors())
    write_json(folder / OWN_FILE, {"samples": state.samples, "scaler": state.scaler}, indent=4)


def read_training_state(folder: Path) -> TrainingState:
    """Read a folder written here or by LeRobot."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is missing: this checkpoint cannot be resumed from")
    document = read_json(folder / STEP_FILE)
    own = read_json(folder / OWN_FILE) if (folder / OWN_FILE).exists() else {}
    try:
        step = int(document["step"])
        num_ranks = int(document.get("dp_world_size", document.get("num_processes", 1)))
        batch_size = int(document.get("batch_size", 0))
        accumulation = int(document.get("grad_accum_steps", 1))
        # LeRobot counts micro-batches as steps, so its position needs no accumulation factor.
        samples = int(own.get("samples", step * batch_size * num_ranks))
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
        optimizer=_read_optimizer(folder),
        scaler=scaler,
    )


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
    """The optimizer's groups; with a schedule LeRobot finds the rates in them, and goes on so."""
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


def _read_optimizer(folder: Path) -> dict[str, Any]:
    state: defaultdict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, tensor in read_tensors(folder / OPTIMIZER_TENSORS).items():
        match = STATE_KEY.fullmatch(key)
        if match is None:
            raise CheckpointError(f"{folder / OPTIMIZER_TENSORS} holds an unknown tensor {key}")
        state[int(match["index"])][match["name"]] = tensor
    path = folder / OPTIMIZER_GROUPS
    try:
        groups = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    return {"state": dict(state), "param_groups": groups}


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
