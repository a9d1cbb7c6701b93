"""A number that is not finite is found, explained, and harms nothing."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from manyhands.checkpoint.snapshot import Position
from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.errors import Diverged
from manyhands.launch.outcome import Ending
from manyhands.observe.jsonl import read_rows
from manyhands.observe.run_log import NullRunLog
from manyhands.parallel.world import joined_world
from manyhands.training.health.nonfinite_guard import MAX_IN_A_ROW, MAX_ROLLBACKS, NonFiniteGuard
from manyhands.training.health.nonfinite_samples import SampleInspector, StepSamples
from manyhands.training.start import run_training
from manyhands.training.step.train_step import StepMetrics

NAN, INF = float("nan"), float("inf")
STEPS = ("--steps=12", "--log_freq=1", "--save_freq=4", "--global_batch_size=4", "--audit")
STEPS += ("--ema.enable=true", "--policy.dropout=0", "--dtype=float64", "--dataset.check=off")
CULPRIT = {"row": 13, "episode": 1, "frame": 4, "feature": "observation.state"}
BAD_STEP = 6
"""The update that draws the sample, of the first dozen."""


@pytest.fixture(scope="module")
def bad_data(plant, tmp_path_factory) -> Path:
    """The tiny dataset with a NaN in the state of one frame."""
    return plant(tmp_path_factory.mktemp("bad") / "data", "observation.state", NAN)


def argv_of(command, root: Path, run_dir: Path, *flags: str) -> list[str]:
    return [f"--dataset.root={root}", *command.argv(run_dir, *STEPS, *flags)[1:]]


def train(command, root: Path, run_dir: Path, *flags: str) -> Ending:
    return run_training(read_train_config(argv_of(command, root, run_dir, *flags)))


def incidents(run_dir: Path) -> list[dict]:
    return list(read_rows(run_dir / "nonfinite.jsonl"))


def assert_all_is_finite(run_dir: Path) -> None:
    """All tensors of all checkpoints are."""
    files = [*(run_dir / "checkpoints").rglob("*.safetensors")]
    assert len(files) >= 3
    for file in files:
        assert all(value.isfinite().all() for value in load_file(file).values()), file


def check_run(run_dir: Path, answer: str) -> None:
    """The planted value was found and named, and is in no checkpoint."""
    (row,) = incidents(run_dir)
    assert (row["step"], row["samples"]) == (BAD_STEP, [CULPRIT])
    assert (row["loss"], row["grad_norm"]) == (None, None)
    told = "observation.state of episode 1, frame 4 (sample row 13)"
    assert told in (run_dir / "log.txt").read_text()
    last = "000004" if answer == "stop" else "000012"
    assert (run_dir / "checkpoints" / "last").resolve().name == last
    assert_all_is_finite(run_dir)


def test_by_default_the_run_ends_and_its_last_checkpoint_stays(command, bad_data, tmp_path):
    run_dir = tmp_path / "run"
    with pytest.raises(Diverged, match=r"observation.state of episode 1, frame 4 \(sample row"):
        train(command, bad_data, run_dir)
    check_run(run_dir, "stop")
    assert json.loads((run_dir / "run.json").read_text())["ending"] == "failed: Diverged"


@pytest.mark.parametrize("answer", ["skip", "rollback"])
def test_a_run_goes_on_where_asked(command, bad_data, tmp_path, metrics, answer):
    run_dir = tmp_path / "run"
    assert train(command, bad_data, run_dir, f"--on_nonfinite={answer}") is Ending.FINISHED
    check_run(run_dir, answer)
    rows = metrics(run_dir)
    assert sorted(rows) == list(range(1, 13))
    skipped = {step for step, row in rows.items() if row["num_skipped"]}
    assert skipped == ({BAD_STEP} if answer == "skip" else set())
    assert {step for step, row in rows.items() if math.isnan(row["loss"])} == skipped


def test_a_skipped_update_is_as_if_it_was_never_made(command, bad_data, tmp_path, weights):
    # Without a schedule and without draws that count updates, the others do not notice.
    flags = ("--policy.use_vae=false", "--ema.enable=false", "--save_freq=0")
    train(command, bad_data, tmp_path / "bad", *flags, "--on_nonfinite=skip", "--steps=6")
    train(command, bad_data, tmp_path / "short", *flags, "--steps=5")
    short = weights(tmp_path / "short")
    for name, value in weights(tmp_path / "bad").items():
        assert torch.equal(value, short[name]), name


STRATEGIES = {"ddp": (), "fsdp": ("--parallelism.dp_shard=-1",)}


@pytest.mark.exact
@pytest.mark.process
def test_all_strategies_find_the_same(command, in_ranks, bad_data, tmp_path, metrics):
    runs = {
        (answer, name): argv_of(
            command, bad_data, tmp_path / answer / name, f"--on_nonfinite={answer}", *flags
        )
        for answer in ("skip", "rollback", "stop")
        for name, flags in STRATEGIES.items()
    }
    codes = {"skip": 0, "rollback": 0, "stop": Diverged.exit_code}
    in_ranks([(2, tmp_path / a / n, argv, codes[a]) for (a, n), argv in runs.items()])
    for answer, name in runs:
        check_run(tmp_path / answer / name, answer)
    for answer in ("skip", "rollback"):
        alone = tmp_path / answer / "alone"
        train(command, bad_data, alone, f"--on_nonfinite={answer}")
        expected = [row["loss"] for row in metrics(alone).values()]
        for name in STRATEGIES:
            run_dir = tmp_path / answer / name
            assert incidents(run_dir) == incidents(alone)
            losses = [row["loss"] for row in metrics(run_dir).values()]
            assert losses == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.process
def test_the_command_ends_with_3_and_names_the_sample_once(command, bad_data, tmp_path):
    run_dir = tmp_path / "run"
    own = argv_of(command, bad_data, run_dir, "--launch.num_processes=2", *STRATEGIES["fsdp"])
    printed = command.train(run_dir, *own, code=3)
    assert printed.count("training diverged: step 6: NaN or Inf") == 1
    check_run(run_dir, "stop")


def test_an_infinite_loss_is_found_although_its_gradients_are_finite(command, plant, tmp_path):
    root = plant(tmp_path / "data", "action", INF)
    with pytest.raises(Diverged, match=r"loss inf.*action of episode 1, frame 4"):
        train(command, root, tmp_path / "run", "--policy.use_vae=false")


def test_where_no_sample_is_to_blame_all_are_listed(command, tiny_dataset, tmp_path):
    run_dir, flags = tmp_path / "run", ("--optimizer.lr=1e300", "--optimizer.grad_clip_norm=0")
    with pytest.raises(Diverged, match="all values of its 4 samples are finite"):
        train(command, tiny_dataset, run_dir, *flags)
    (row,) = incidents(run_dir)
    audit = {row["step"]: row["indices"] for row in read_rows(run_dir / "audit/rank-00.jsonl")}
    assert row["samples"] == []
    assert row["rows"] == audit[row["step"]]


def test_weights_that_overflow_are_not_saved(command, tiny_dataset, tmp_path):
    flags = ("--optimizer.type=sgd", "--optimizer.lr=1e38", "--optimizer.grad_clip_norm=0")
    flags += ("--save_freq=1", "--dtype=float32", "--on_nonfinite=skip")
    with pytest.raises(Diverged, match="weights are NaN or Inf, although all gradients were"):
        train(command, tiny_dataset, tmp_path / "run", *flags)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_skipping_ends_where_nothing_else_comes(command, tiny_dataset, tmp_path):
    flags = ("--optimizer.lr=1e300", "--optimizer.grad_clip_norm=0", "--on_nonfinite=skip")
    with pytest.raises(Diverged, match=f"step {MAX_IN_A_ROW + 1}: NaN or Inf"):
        train(command, tiny_dataset, tmp_path / "run", *flags, "--steps=200", "--save_freq=0")
    assert len(incidents(tmp_path / "run")) == MAX_IN_A_ROW


def test_going_back_ends_where_it_does_not_help(command, tiny_dataset, tmp_path):
    flags = ("--optimizer.lr=1e300", "--optimizer.grad_clip_norm=0", "--on_nonfinite=rollback")
    with pytest.raises(Diverged, match=f"after {MAX_ROLLBACKS} rollbacks to step 0"):
        train(command, tiny_dataset, tmp_path / "run", *flags, "--save_freq=0")
    assert len(incidents(tmp_path / "run")) == MAX_ROLLBACKS + 1


class NoEvidence(SampleInspector):
    """Looks at nothing."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def inspect(self, position: int) -> StepSamples:
        self.asked.append(position)
        return StepSamples([1], [])


@pytest.fixture
def make_guard():
    """Makes guards of a world, and tells what they asked about."""
    with joined_world(TrainConfig(policy=ActConfig(device="cpu"))) as world:

        def make(answer: str) -> tuple[NonFiniteGuard, list[int]]:
            investigation = NoEvidence()
            return NonFiniteGuard(answer, world, investigation, NullRunLog()), investigation.asked

        yield make


def result_of(is_bad: bool) -> StepMetrics:
    value = torch.tensor(NAN if is_bad else 1.0)
    return StepMetrics({"loss": value}, value, torch.tensor(is_bad))


def test_noting_asks_the_device_for_nothing(make_guard, no_host_synchronization):
    guard, _ = make_guard("skip")
    with no_host_synchronization():
        for step in range(3):
            guard.note(Position(step, 4 * step), result_of(step == 1))
    guard.must_roll_back(None, saving=False)
    assert guard.lap() == {"num_skipped": 1}


def test_updates_are_judged_together_and_once(make_guard):
    guard, asked = make_guard("skip")
    for step in range(6):
        guard.note(Position(step, 4 * step), result_of(step in (1, 4)))
    assert not guard.must_roll_back(None, saving=False)
    assert asked == [4, 16]
    assert guard.lap() == {"num_skipped": 2}
    assert not guard.must_roll_back(None, saving=False)
    assert (asked, guard.lap()) == ([4, 16], {"num_skipped": 0})


def test_only_bad_updates_in_a_row_add_up(make_guard):
    guard, _ = make_guard("skip")
    for step in range(MAX_IN_A_ROW - 1):
        guard.note(Position(step, step), result_of(True))
    guard.note(Position(), result_of(False))
    for step in range(MAX_IN_A_ROW - 1):
        guard.note(Position(step, step), result_of(True))
    assert not guard.must_roll_back(None, saving=False)
    guard.note(Position(), result_of(True))
    with pytest.raises(Diverged):
        guard.must_roll_back(None, saving=False)


def test_a_run_may_go_back_often_if_it_gets_on_in_between(make_guard):
    guard, _ = make_guard("rollback")
    guard.note(Position(), result_of(True))
    assert guard.must_roll_back(None, saving=False)
    for step in range(0, 50, 10):
        for _ in range(MAX_ROLLBACKS):
            guard.record_rollback(step)
    with pytest.raises(Diverged, match="rollbacks to step 40"):
        guard.record_rollback(40)
