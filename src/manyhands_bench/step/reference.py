"""Measures LeRobot's steps of the same policy, in another Python environment."""

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from manyhands.config.policies.base import PolicyConfig
from manyhands.errors import ConfigError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.policy.folder import PolicyFiles
from manyhands.parallel.world import World
from manyhands.training.setup.assemble import build_initial_policy
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.lerobot import ask_lerobot
from manyhands_bench.step.row import Row, Timed, row_of
from manyhands_bench.step.subject import Shapes, Subject

LEROBOT = "LeRobot"
START_S = 600.0
"""How long the other Python may take to import LeRobot and run its first step."""
UPDATE_S = 20.0
"""How long any other step may take."""
PRECISIONS = ("no", "bf16")


@dataclass(frozen=True, kw_only=True)
class ReferenceRequest:
    """The request to LeRobot."""

    folder: str
    """Folder with the policy's configuration and processors in LeRobot's format."""
    device: str
    """With an index if it is a GPU: torch.cuda.set_device needs one."""
    precision: str
    shapes: Shapes
    """Type and shape of every tensor of a batch."""
    task: str | None
    """The task of every sample; null for a policy without language."""
    num_steps: int
    warm_up: int


def reference_rows(
    python: Path, subject: Subject, bench: BenchStepConfig, world: World
) -> list[Row]:
    """LeRobot's speed in the precision of a run, and on a GPU in the other one too."""
    precisions = precisions_of(world, subject.config.dtype)
    with tempfile.TemporaryDirectory() as folder:
        write_reference_policy(Path(folder), subject, world.device.type)
        request = make_request(folder, subject, bench, world)
        num_samples = subject.split.samples_per_step
        return [
            reference_row(python, replace(request, precision=precision), num_samples)
            for precision in precisions
        ]


def make_request(
    folder: str, subject: Subject, bench: BenchStepConfig, world: World
) -> ReferenceRequest:
    """The request for the policy in a folder, in the precision of a run."""
    assert subject.config.policy is not None
    return ReferenceRequest(
        folder=folder,
        device=str(world.device),
        precision=world.precision,
        shapes=features_in(subject.recorded, subject.config.policy),
        task=task_of(subject.config.policy),
        num_steps=bench.num_steps,
        warm_up=bench.warm_up,
    )


def precisions_of(world: World, dtype: str) -> list[str]:
    """Precisions to measure, that of the run first."""
    if world.precision not in PRECISIONS or dtype != "float32":
        raise ConfigError(
            [
                "--against supports only float32 and bf16, not "
                f"--dtype={dtype} --accelerator.mixed_precision={world.precision}"
            ]
        )
    others = PRECISIONS if world.device.type == "cuda" else ()
    return list(dict.fromkeys((world.precision, *others)))


def features_in(shapes: Shapes, policy: PolicyConfig) -> Shapes:
    """The tensors of a batch that a policy uses, and their padding masks."""
    features = policy.input_features | policy.output_features
    return {
        name: shape
        for name, shape in shapes.items()
        if name.removesuffix(names.PAD_SUFFIX) in features
    }


def task_of(policy: PolicyConfig) -> str | None:
    """A synthetic text of maximal length, for a policy with language."""
    return None if policy.language is None else "go " * policy.language.max_length


def write_reference_policy(folder: Path, subject: Subject, device: str) -> None:
    """Write a policy without its weights, which do not affect step times."""
    policy, _ = build_initial_policy(subject.config, subject.stats, torch.device("cpu"))
    PolicyFiles(replace(policy.config, device=device), policy.processors, {}).write(folder)


def reference_row(python: Path, request: ReferenceRequest, num_samples: int) -> Row:
    """LeRobot's speed in one precision."""
    timeout_s = START_S + UPDATE_S * (request.warm_up + request.num_steps)
    answer = ask_lerobot(python, "manyhands_bench.step", "step", asdict(request), timeout_s)
    return row_of(LEROBOT, request.precision, Timed(**answer), num_samples)
