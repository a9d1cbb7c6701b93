"""One update."""

import json
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch import nn

from manyhands.checkpoint.snapshot import Position
from manyhands.config.resolve import read_train_config
from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import CheckpointError, ConfigError, UserError
from manyhands.parallel.accelerate_engine import AccelerateEngine
from manyhands.parallel.world import joined_world
from manyhands.policies.build import build_policy
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.step.learner import Learner
from manyhands.training.step.train_step import TrainStep
from manyhands.types import Batch


@contextmanager
def learner_of(command, tmp_path, *flags, scaler=None):
    """A learner on the tiny dataset, and its dataset."""
    config = read_train_config(command.argv(tmp_path / "run", "--batch_size=4", *flags))
    data, config = open_training_data(config, alone)
    with joined_world(config) as world:
        world.loss_scaler = scaler or world.loss_scaler
        policy, _ = build_initial_policy(config, data.stats, world.device)
        split = BatchSplit(0, 1, config.batch_size)
        yield (
            Learner(TrainStep(policy, config, AccelerateEngine(world, 1), world, split), config),
            data.source,
        )


def weights_after(command, tmp_path, steps, *flags) -> dict[str, torch.Tensor]:
    with learner_of(command, tmp_path, *flags) as (learner, dataset):
        for step in steps:
            learner.train_step(dataset.batch([1, 5, 9, 20]), step)
        state = learner.policy.network.state_dict()
        return {name: value.clone() for name, value in state.items()}


def test_an_update_is_a_function_of_batch_step_and_seed(command, tmp_path):
    one, same, other_step, other_seed = (
        weights_after(command, tmp_path, *arguments)
        for arguments in (([3],), ([3],), ([4],), ([3], "--seed=7"))
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other_step[name]) for name in one)
    assert not all(torch.equal(one[name], other_seed[name]) for name in one)


def test_the_global_random_state_does_not_matter(command, tmp_path):
    one = weights_after(command, tmp_path, [0])
    torch.randn(100)
    again = weights_after(command, tmp_path, [0])
    assert all(torch.equal(one[name], again[name]) for name in one)


def test_the_measured_loss_is_the_policys_own(command, tmp_path):
    with learner_of(command, tmp_path, "--policy.dropout=0") as (learner, data):
        batch = data.batch([1, 5, 9, 20])
        expected, terms = learner.policy.train().training_loss(batch, learner.draws(0))
        result = learner.train_step(batch, 0)
        torch.testing.assert_close(result.terms["loss"], expected.detach())
        torch.testing.assert_close(result.terms["l1_loss"], terms["l1_loss"])
        assert learner.lr == 1e-3
        assert result.grad_norm > 0


def test_ranks_draw_for_their_samples_what_one_process_draws(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, _):
        whole = learner.draws(5)["latent_noise"]
        for rank in range(2):
            learner.step.split = BatchSplit(rank, 2, 4)
            assert torch.equal(learner.draws(5)["latent_noise"], whole[2 * rank : 2 * rank + 2])
        for rank in range(3):
            learner.step.split = BatchSplit(rank, 3, 4)
            own = [slice(0, 2), slice(2, 3), slice(3, 4)][rank]
            assert torch.equal(learner.draws(5)["latent_noise"], whole[own])


def test_a_saved_state_of_another_policy_is_refused(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, data):
        learner.train_step(data.batch([1, 5, 9, 20]), 0)
        state = learner.snapshot(Position(1, 4)).state
        extra = {**state.optimizer, "state": {**state.optimizer["state"], 10**6: {}}}
        with pytest.raises(CheckpointError, match="another policy"):
            learner.load_training_state(replace(state, optimizer=extra))
        misshapen = {**state.optimizer["state"], 0: {"exp_avg": torch.zeros(999)}}
        other = {**state.optimizer, "state": misshapen}
        with pytest.raises(CheckpointError, match="another policy"):
            learner.load_training_state(replace(state, optimizer=other))
    sgd = learner_of(command, tmp_path, "--optimizer.type=sgd")
    with sgd as (learner, _), pytest.raises(CheckpointError, match="another optimizer"):
        learner.load_training_state(state)


def test_a_changed_learning_rate_takes_effect_on_a_saved_state(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, data):
        learner.train_step(data.batch([1, 5, 9, 20]), 0)
        state = learner.snapshot(Position(1, 4)).state
    with learner_of(command, tmp_path, "--optimizer.lr=0.5") as (learner, data):
        learner.load_training_state(state)
        learner.train_step(data.batch([1, 5, 9, 20]), 1)
        assert learner.lr == 0.5


def test_another_effective_batch_than_the_checkpoints_is_told(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, _):
        state = learner.snapshot(Position(0, 0)).state
        assert learner.load_training_state(state) == []
        (told,) = learner.load_training_state(replace(state, samples_per_step=12))
        assert "from 12 " in told
        assert "to 4 samples" in told
        assert learner.load_training_state(replace(state, samples_per_step=0)) == []


def test_parameters_without_a_part_in_the_loss_are_refused_by_name(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, data):
        learner.policy.network.idle = nn.Linear(2, 1)
        learner.policy.network.idle.bias.requires_grad_(False)
        with pytest.raises(UserError, match=r"does not depend on .*: idle.weight\."):
            learner.train_step(data.batch([1, 5, 9, 20]), 0)


def test_the_saved_settings_leave_kernels_to_whoever_reads_them(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, data):
        learner.train_step(data.batch([1, 5, 9, 20]), 0)
        groups = learner.snapshot(Position(1, 4)).state.optimizer["param_groups"]
    assert [(group["fused"], group["foreach"]) for group in groups] == [(None, None)] * 2


def test_a_snapshot_stays_as_it_is_when_training_goes_on(command, tmp_path):
    with learner_of(command, tmp_path, "--ema.enable=true") as (learner, data):
        for step in range(2):
            learner.train_step(data.batch([1, 5, 9, 20]), step)
        policies = learner.snapshot(Position(2, 8)).policies
        kept = {folder: deepcopy(files.weights) for folder, files in policies.items()}
        learner.train_step(data.batch([2, 6, 10, 21]), 2)
    assert list(policies) == ["pretrained_model", "pretrained_model_ema"]
    for folder, files in policies.items():
        assert all(torch.equal(value, kept[folder][name]) for name, value in files.weights.items())


PRECISIONS = ["no", "bf16"]
HALF = ("--policy.device=cuda", "--accelerator.mixed_precision=fp16")
ADAM = ("--optimizer.type=adam",)
SGD = ("--optimizer.type=sgd", "--optimizer.momentum=0.9")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_update_reads_nothing_back(command, tmp_path, no_host_synchronization, precision):
    flags = ("--ema.enable=true", f"--accelerator.mixed_precision={precision}")
    with learner_of(command, tmp_path, *flags) as (learner, data):
        learner.train_step(data.batch([1, 5, 9, 20]), 0)
        batch = data.batch([2, 6, 10, 21])
        with no_host_synchronization():
            result = learner.train_step(batch, 1)
        with pytest.raises(AssertionError, match="waits"), no_host_synchronization():
            result.grad_norm.item()


DAMPENED = (*SGD, "--optimizer.dampening=0.5")


def spoiled(batch: Batch, key: str = "observation.state", value: float = float("nan")) -> Batch:
    """A batch with a value that is not finite in one sample."""
    batch[key] = batch[key].clone()
    batch[key][2].view(-1)[1] = value
    return batch


def everything_of(learner: Learner) -> list[torch.Tensor]:
    """Weights, averages, buffers, and what the optimizer remembers."""
    snapshot = learner.snapshot(Position(1, 4))
    weights = [value for each in snapshot.policies.values() for value in each.weights.values()]
    moments = [
        value for state in snapshot.state.optimizer["state"].values() for value in state.values()
    ]
    return [value.clone() for value in (*weights, *moments)]


def assert_kept(learner: Learner, before: list[torch.Tensor]) -> None:
    pairs = zip(before, everything_of(learner), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("optimizer", [ADAM, SGD, DAMPENED], ids=["adam", "sgd", "dampened"])
def test_an_update_that_is_not_finite_changes_nothing_and_asks_nothing(
    command, tmp_path, no_host_synchronization, optimizer
):
    with learner_of(command, tmp_path, "--ema.enable=true", *optimizer) as (learner, data):
        learner.train_step(data.batch([1, 5, 9, 20]), 0)
        before = everything_of(learner)
        batch = spoiled(data.batch([2, 6, 10, 21]))
        with no_host_synchronization():
            result = learner.train_step(batch, 1)
        assert result.is_bad
        assert_kept(learner, before)
        assert not learner.train_step(data.batch([2, 6, 10, 21]), 2).is_bad
        with pytest.raises(AssertionError):
            assert_kept(learner, before)


def test_statistics_of_a_batch_that_is_not_finite_are_put_back(camera_dataset, tiny_diffusion):
    flags = ("--policy.use_group_norm=false", "--policy.pretrained_backbone_weights=null")
    root = f"--dataset.root={camera_dataset}"
    config = read_train_config([root, *tiny_diffusion, *flags, "--steps=9", "--batch_size=3"])
    data, config = open_training_data(config, alone)
    with joined_world(config) as world:
        policy, _ = build_initial_policy(config, data.stats, world.device)
        learner = Learner(
            TrainStep(policy, config, AccelerateEngine(world, 1), world, BatchSplit(0, 1, 3)),
            config,
        )
        learner.train_step(data.source.batch([0, 1, 2]), 0)
        before = everything_of(learner)
        prepare = policy.prepare

        def spoil(batch: Batch) -> Batch:
            return spoiled(prepare(batch), "observation.images.top")

        policy.prepare = spoil
        assert learner.train_step(data.source.batch([1, 2, 3]), 1).is_bad
        assert_kept(learner, before)
    names = [name for name, _ in policy.network.named_buffers()]
    assert any(name.endswith("running_mean") for name in names)


def test_an_infinite_loss_spoils_gradients_that_are_finite(command, tmp_path):
    with learner_of(command, tmp_path, "--policy.use_vae=false") as (learner, data):
        learner.train_step(data.batch([1, 5, 9, 20]), 0)
        before = everything_of(learner)
        result = learner.train_step(spoiled(data.batch([2, 6, 10, 21]), "action", float("inf")), 1)
        assert result.terms["loss"] == float("inf")
        assert result.is_bad
        assert_kept(learner, before)


def test_an_overflow_of_scaled_gradients_is_no_fault_but_a_bad_sample_is(command, tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126)
    with learner_of(command, tmp_path, "--ema.enable=true", scaler=scaler) as (learner, data):
        before = everything_of(learner)
        overflow = learner.train_step(data.batch([1, 5, 9, 20]), 0)
        assert not overflow.grad_norm.isfinite()
        assert not overflow.is_bad
        after = everything_of(learner)
        assert all(torch.equal(*pair) for pair in zip(before, after, strict=False))
        assert learner.snapshot(Position()).state.scaler["scale"] == 2.0**125
        learner.step.engine.load_scaler_state({"scale": 1.0, **SCALER})
        assert learner.train_step(spoiled(data.batch([2, 6, 10, 21])), 1).is_bad
        assert_kept(learner, after)
        assert not learner.train_step(data.batch([2, 6, 10, 21]), 2).is_bad


SCALER = {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 9, "_growth_tracker": 0}


def test_the_largest_weight_tells_of_any_that_is_not_finite(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, _):
        weight = next(learner.policy.network.parameters())
        for value in (1e30, float("inf"), -float("inf"), float("nan")):
            with torch.no_grad():
                weight.view(-1)[0] = value
            assert bool(learner.max_abs_weight().isfinite()) == (value == 1e30)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
class TestOnAGpu:
    """What only a real device can show."""

    @pytest.mark.parametrize("precision", [*PRECISIONS, "fp16"])
    @pytest.mark.parametrize("kind", [ADAM, SGD, DAMPENED], ids=["adam", "sgd", "dampened"])
    def test_a_bad_update_changes_nothing_without_waiting(self, command, tmp_path, precision, kind):
        flags = ("--policy.device=cuda", f"--accelerator.mixed_precision={precision}")
        with learner_of(command, tmp_path, *flags, "--ema.enable=true", *kind) as (learner, data):
            good, bad = (on_gpu(data.batch([1, 5, 9, 20])) for _ in range(2))
            bad = spoiled(bad)
            scaler = learner.snapshot(Position()).state.scaler
            learner.step.engine.load_scaler_state({**scaler, "scale": 1.0} if scaler else {})
            learner.train_step(good, 0)
            before = everything_of(learner)
            torch.cuda.set_sync_debug_mode("error")
            try:
                result = learner.train_step(bad, 1)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            assert result.is_bad
            assert_kept(learner, before)

    @pytest.mark.parametrize("precision", [*PRECISIONS, "fp16"])
    @pytest.mark.parametrize("optimizer", [ADAM, SGD], ids=["adam", "sgd"])
    def test_an_update_never_waits_for_the_device(self, command, tmp_path, precision, optimizer):
        flags = ("--policy.device=cuda", f"--accelerator.mixed_precision={precision}")
        flags += ("--ema.enable=true", *optimizer)
        with learner_of(command, tmp_path, *flags) as (learner, data):
            batches = [on_gpu(data.batch([1 + k, 5, 9, 20])) for k in range(3)]
            scaler = learner.snapshot(Position()).state.scaler
            learner.step.engine.load_scaler_state({**scaler, "scale": 1.0} if scaler else {})
            learner.train_step(batches[0], 0)
            before = weights_of(learner)
            torch.cuda.set_sync_debug_mode("error")
            try:
                results = [learner.train_step(batch, step) for step, batch in enumerate(batches, 1)]
            finally:
                torch.cuda.set_sync_debug_mode("default")
            assert all(torch.isfinite(result.terms["loss"]) for result in results)
            after = weights_of(learner)
            assert any(not torch.equal(before[name], value) for name, value in after.items())

    def test_an_overflow_leaves_weights_and_momentum_and_lowers_the_scale(self, command, tmp_path):
        for kind in (ADAM, SGD):
            with learner_of(command, tmp_path, *HALF, *kind) as (learner, data):
                scaler = learner.snapshot(Position()).state.scaler
                learner.step.engine.load_scaler_state({**scaler, "scale": 2.0**120})
                before = weights_of(learner)
                learner.train_step(on_gpu(data.batch([1, 5, 9, 20])), 0)
                after, state = weights_of(learner), learner.snapshot(Position(1, 4)).state
            assert all(torch.equal(before[name], value) for name, value in after.items())
            assert state.scaler["scale"] == 2.0**119
            moments = [
                each for group in state.optimizer["state"].values() for each in group.values()
            ]
            assert not any(moment.any() for moment in moments)

    def test_the_loss_scale_is_saved_and_restored(self, command, tmp_path):
        with learner_of(command, tmp_path, *HALF) as (learner, data):
            learner.train_step(on_gpu(data.batch([1, 5, 9, 20])), 0)
            state = learner.snapshot(Position(1, 4)).state
        with learner_of(command, tmp_path, *HALF) as (learner, data):
            learner.load_training_state(replace(state, scaler={**state.scaler, "scale": 8.0}))
            learner.train_step(on_gpu(data.batch([1, 5, 9, 20])), 1)
            assert learner.snapshot(Position(2, 8)).state.scaler["scale"] == 8.0


def on_gpu(batch: Batch) -> Batch:
    """A batch as the stream gives it."""
    return {key: each.cuda() if torch.is_tensor(each) else each for key, each in batch.items()}


def weights_of(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in learner.policy.network.state_dict().items()}


AUGMENT = "--dataset.image_transforms"
CAMERAS = ("observation.images.top", "observation.images.wrist")
SEEING = [
    "--policy.pretrained_backbone_weights=null",
    "--policy.dropout=0",
    "--policy.output_features=" + json.dumps({"action": {"type": "ACTION", "shape": [2]}}),
    "--policy.input_features="
    + json.dumps(
        {"observation.state": {"type": "STATE", "shape": [3]}}
        | {camera: {"type": "VISUAL", "shape": [3, 32, 32]} for camera in CAMERAS}
    ),
]


@pytest.fixture(scope="module")
def seeing(tiny_act):
    """A policy with two small cameras, and a batch of frames; both to be copied."""
    config = read_train_config(["--dataset.root=none", *tiny_act, *SEEING])
    torch.manual_seed(0)
    batch = {camera: torch.randint(20, 230, (4, 3, 32, 32)).byte() for camera in CAMERAS}
    batch |= {"observation.state": torch.randn(4, 3), "action": torch.randn(4, 6, 2)}
    batch |= {"action_is_pad": torch.zeros(4, 6, dtype=torch.bool)}
    return build_policy(config.policy, {}), batch


@contextmanager
def seeing_learner(seeing, command, tmp_path, *flags, num_micro_batches=1):
    """A learner of those cameras, and the batch."""
    config = read_train_config(command.argv(tmp_path / "run", *SEEING, *flags))
    policy, batch = deepcopy(seeing)
    with joined_world(config) as world:
        engine = AccelerateEngine(world, num_micro_batches)
        yield Learner(TrainStep(policy, config, engine, world, BatchSplit(0, 1, 4)), config), batch


def test_each_flag_of_the_augmentation_changes_what_is_seen(seeing, command, tmp_path):
    on, grain = f"{AUGMENT}.enable=true", json.dumps({"grain": {"type": "GaussianNoise"}})
    flags = [(on,), (on, f"{AUGMENT}.max_num_transforms=1"), (on, f"{AUGMENT}.random_order=true")]
    flags += [(on, f"{AUGMENT}.tfs={grain}"), ()]
    cameras = []
    for each in flags:
        with seeing_learner(seeing, command, tmp_path, *each) as (learner, batch):
            seen = learner.step._augmentation(batch, learner.augmentation_draws(0))
            cameras.append([seen[camera].float() for camera in CAMERAS])
    for one, other in combinations(cameras, 2):
        assert not any(torch.allclose(a, b) for a, b in zip(one, other, strict=True))


def test_what_is_learned_from_is_the_augmented_batch(seeing, command, tmp_path):
    with seeing_learner(seeing, command, tmp_path, f"{AUGMENT}.enable=true") as (learner, batch):
        draws = learner.augmentation_draws(3)
        assert sorted(draws) == list(CAMERAS)
        changed = learner.step._augmentation(batch, draws)
        expected, _ = learner.policy.train().training_loss(changed, learner.draws(3))
        plain, _ = learner.policy.training_loss(batch, learner.draws(3))
        assert not torch.allclose(expected, plain)
        torch.testing.assert_close(learner.train_step(batch, 3).terms["loss"], expected.detach())
        assert all(batch[camera].dtype == torch.uint8 for camera in CAMERAS)


def test_a_policy_itself_never_augments(seeing, command, tmp_path):
    losses = []
    for flags in ((), (f"{AUGMENT}.enable=true",)):
        with seeing_learner(seeing, command, tmp_path, *flags) as (learner, batch):
            losses.append(learner.policy.training_loss(batch, learner.draws(0))[0].item())
    assert losses[0] == losses[1]


def test_micro_batches_and_ranks_augment_their_own_samples(seeing, command, tmp_path):
    losses = []
    for num_micro_batches in (1, 2):
        parts = seeing_learner(
            seeing, command, tmp_path, f"{AUGMENT}.enable=true", num_micro_batches=num_micro_batches
        )
        with parts as (learner, batch):
            losses.append(learner.train_step(batch, 0).terms["loss"].item())
            draws = learner.augmentation_draws(5)
            for rank in range(4):
                learner.step.split = BatchSplit(rank, 4, 4)
                own = learner.augmentation_draws(5)
                assert all(torch.equal(own[name][0], draws[name][rank]) for name in CAMERAS)
    # Frozen normalization lets samples be computed in any company.
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_augmenting_without_a_camera_is_refused(command, tmp_path):
    with (
        pytest.raises(ConfigError, match="no camera"),
        learner_of(command, tmp_path, f"{AUGMENT}.enable=true"),
    ):
        pass
