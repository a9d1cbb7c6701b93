"""One run, however it is spread: the strategy is a matter of speed and memory.

A few combinations are tried here; `make exactness` tries all.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from manyhands.config.resolve import read_train_config
from manyhands.training.start import run_training

DEADLINE_S = 1800
GLOBAL_BATCH = 12

CAMERAS = (
    "--policy.pretrained_backbone_weights=null",
    "--policy.use_group_norm=false",
    "--policy.crop_shape=[28, 28]",
    "--policy.spatial_softmax_num_keypoints=4",
)
STRATEGIES = {
    "ddp": (),
    "fsdp": ("--parallelism.dp_shard=-1",),
    "hsdp": ("--parallelism.dp_replicate=2", "--parallelism.dp_shard=2"),
}
PRECISIONS = {"float64": (50, 1e-9), "float32": (10, 1e-5)}
"""Updates over which losses agree, and how closely."""
AVERAGED = ("--ema.enable=true", "--ema.decay=0.9", "--policy.dropout=0", "--log_freq=1")


@dataclass(frozen=True)
class Case:
    """A run to compare."""

    policy: str
    dtype: str
    num_processes: int = 1
    strategy: str = "ddp"
    max_steps: int = 50

    @property
    def name(self) -> str:
        """A name for the run's folder."""
        return f"{self.policy}-{self.dtype}-{self.strategy}-{self.num_processes}-{self.num_steps}"

    @property
    def num_steps(self) -> int:
        """Updates to compare."""
        return min(PRECISIONS[self.dtype][0], self.max_steps)

    @property
    def alone(self) -> "Case":
        """The same run in one process."""
        return replace(self, num_processes=1, strategy="ddp")


class Runs:
    """Trains in forked processes, and remembers what was trained."""

    def __init__(
        self, folder: Path, dataset: Path, policies: dict[str, tuple[str, ...]], in_ranks: Any
    ) -> None:
        self.folder = folder
        self._policies = policies
        self._in_ranks = in_ranks
        self._base = [f"--dataset.root={dataset}", f"--global_batch_size={GLOBAL_BATCH}"]

    def with_expected(self, cases: Iterable[Case]) -> Iterator[tuple["Trace", "Trace"]]:
        """What each case did, and what it should have done: the same as alone but for rounding."""
        cases = list(cases)
        self.train(dict.fromkeys([*(case.alone for case in cases), *cases]))
        for case in cases:
            _, tolerance = PRECISIONS[case.dtype]
            found, alone = (trace_of(self.folder / each.name) for each in (case, case.alone))
            yield found, Trace(alone.samples, pytest.approx(alone.losses, rel=tolerance))

    def train(self, cases: Iterable[Case]) -> None:
        """Train what was not trained yet."""
        missing = [case for case in cases if not (self.folder / case.name).exists()]
        self._in_ranks(
            [(case.num_processes, self.folder / case.name, self.argv(case)) for case in missing]
        )

    def argv(self, case: Case) -> list[str]:
        """The flags of a run."""
        settings = ["--log_freq=1", "--audit=true", "--save_checkpoint=false"]
        spread = STRATEGIES[case.strategy] if case.num_processes > 1 else ()
        return [
            *self._base,
            *self._policies[case.policy],
            *(f"--dtype={case.dtype}", f"--steps={case.num_steps}", *settings, *spread),
        ]


class Trace(NamedTuple):
    """What a run did, update by update."""

    samples: list[list[int]]
    losses: Any


def trace_of(run_dir: Path) -> Trace:
    """What a run wrote down."""
    return Trace(samples_of(run_dir), losses_of(run_dir))


def losses_of(run_dir: Path) -> dict[int, float]:
    """The loss of every update."""
    rows = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows}


def samples_of(run_dir: Path) -> list[list[int]]:
    """The dataset rows of every update, ranks in their order."""
    ranks = [
        [json.loads(line)["indices"] for line in file.read_text().splitlines()]
        for file in sorted((run_dir / "audit").iterdir())
    ]
    return [sum(parts, []) for parts in zip(*ranks, strict=True)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_dataset, tiny_act, tiny_diffusion, in_ranks) -> Runs:
    """Runs on the tiny dataset."""
    policies = {"act": (*tiny_act, "--policy.dropout=0"), "diffusion": tiny_diffusion}
    return Runs(tmp_path_factory.mktemp("strategies"), tiny_dataset, policies, in_ranks)


@pytest.mark.process
def test_a_strategy_changes_neither_samples_nor_losses(runs):
    cases = [
        Case("diffusion", "float64", 2, "ddp", max_steps=20),
        Case("diffusion", "float32", 2, "fsdp"),
    ]
    for found, expected in runs.with_expected(cases):
        assert found.losses and found == expected


@pytest.mark.exact
@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("policy", ["act", "diffusion"])
@pytest.mark.parametrize(
    ("num_processes", "strategy"),
    [*product((2, 3, 4), ("ddp", "fsdp")), (4, "hsdp")],
)
def test_no_strategy_changes_samples_or_losses(runs, policy, dtype, num_processes, strategy):
    for found, expected in runs.with_expected([Case(policy, dtype, num_processes, strategy)]):
        assert found.losses and found == expected


@pytest.mark.exact
@pytest.mark.process
def test_batch_norm_learns_alike_however_images_are_spread(
    tmp_path, camera_dataset, tiny_diffusion, in_ranks
):
    shared = [f"--dataset.root={camera_dataset}", "--global_batch_size=4", "--dtype=float64"]
    shared += [*tiny_diffusion, *CAMERAS, "--steps=3", "--log_freq=1", "--save_checkpoint=false"]
    spread = {"alone": (1, ()), "ddp": (2, ()), "fsdp": (2, STRATEGIES["fsdp"])}
    in_ranks(
        [(number, tmp_path / name, [*shared, *flags]) for name, (number, flags) in spread.items()]
    )
    for name in ("ddp", "fsdp"):
        assert losses_of(tmp_path / name) == pytest.approx(losses_of(tmp_path / "alone"), rel=1e-9)


@pytest.mark.exact
@pytest.mark.process
def test_act_learns_alike_and_goes_on_under_another_strategy(
    tmp_path, tiny_dataset, tiny_act, in_ranks
):
    shared = [f"--dataset.root={tiny_dataset}", *tiny_act, *AVERAGED, "--dtype=float64"]
    shared += [f"--global_batch_size={GLOBAL_BATCH}", "--audit=true"]
    names = ("alone", "fsdp to ddp", "fsdp to one", "fsdp to fsdp", "ddp to fsdp", "hsdp to fsdp")
    alone, *others = (tmp_path / name for name in names)
    to_ddp, to_one, to_fsdp, ddp, hsdp = others
    shards, whole = "--checkpoint_format=dcp", "--checkpoint_format=safetensors"

    def resumed(run_dir: Path, *flags: str) -> list[str]:
        return ["--steps=6", f"--resume={run_dir}", *flags]

    in_ranks(
        [
            (1, alone, [*shared, "--steps=6"]),
            (3, to_ddp, [*shared, "--steps=3", *STRATEGIES["fsdp"]]),
            (2, ddp, [*shared, "--steps=3"]),
            (4, hsdp, [*shared, "--steps=3", *STRATEGIES["hsdp"], shards]),
        ]
    )
    for copy in (to_one, to_fsdp):
        shutil.copytree(to_ddp, copy, symlinks=True)
    in_ranks(
        [
            (2, to_ddp, resumed(to_ddp, "--parallelism.dp_shard=1")),
            (1, to_one, resumed(to_one)),
            (2, to_fsdp, resumed(to_fsdp)),
            (2, ddp, resumed(ddp, *STRATEGIES["fsdp"])),
            (3, hsdp, resumed(hsdp, "--parallelism.dp_replicate=1", *STRATEGIES["fsdp"], whole)),
        ]
    )
    saved = hsdp / "checkpoints/000003"
    assert len([*saved.glob("training_state/shards/shard-*-of-00004.safetensors")]) == 4
    assert not [*saved.glob("*/model.safetensors")]
    assert not [*(hsdp / "checkpoints/000006").glob("training_state/shards")]
    for run_dir, folder in product(others, ("pretrained_model", "pretrained_model_ema")):
        assert batches_of(run_dir) == batches_of(alone)
        assert losses_of(run_dir) == pytest.approx(losses_of(alone), rel=1e-9)
        # Where gradients are zero, Adam makes updates of what rounding leaves of them.
        near = {"rtol": 1e-6, "atol": 1e-9}
        torch.testing.assert_close(weights_of(run_dir, folder), weights_of(alone, folder), **near)


def batches_of(run_dir: Path) -> dict[int, list[int]]:
    """The dataset rows of every update, ranks in their order, however many there were."""
    batches: dict[int, list[int]] = {}
    for file in sorted((run_dir / "audit").iterdir()):
        for row in map(json.loads, file.read_text().splitlines()):
            batches.setdefault(row["step"], []).extend(row["indices"])
    return batches


def weights_of(run_dir: Path, folder: str = "pretrained_model") -> dict[str, torch.Tensor]:
    """The weights of a run's last checkpoint."""
    return load_file(run_dir / "checkpoints/last" / folder / "model.safetensors")


def test_many_devices_of_one_process_learn_as_one(tmp_path, command):
    for name, flags in {"one": (), "many": ("--parallelism.gpus_per_process=3",)}.items():
        argv = command.argv(tmp_path / name, *AVERAGED, "--steps=4", "--batch_size=8", *flags)
        run_training(read_train_config([*argv, "--dtype=float64"]))
    assert losses_of(tmp_path / "many") == pytest.approx(losses_of(tmp_path / "one"), rel=1e-12)
