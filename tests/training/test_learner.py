"""One update."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from manyhands.checkpoint.store import Position
from manyhands.config.resolve import read_train_config
from manyhands.data.loading.stream import Share
from manyhands.errors import CheckpointError
from manyhands.parallel.accelerated import AcceleratedEngine
from manyhands.parallel.world import joined_world
from manyhands.training.assemble import make_policy, open_training_data
from manyhands.training.learner import Learner


@contextmanager
def learner_of(command, tmp_path, *flags):
    """A learner on the tiny dataset, and its dataset."""
    config = read_train_config(command.argv(tmp_path / "run", "--batch_size=4", *flags))
    dataset, config = open_training_data(config)
    with joined_world(config) as world:
        policy, _ = make_policy(config, dataset, world.device)
        share = Share(0, 1, config.batch_size)
        yield Learner(policy, config, AcceleratedEngine(world, 1), world, share), dataset


def weights_after(command, tmp_path, steps, *flags) -> dict[str, torch.Tensor]:
    with learner_of(command, tmp_path, *flags) as (learner, dataset):
        for step in steps:
            learner.update(dataset.batch([1, 5, 9, 20]), step)
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
        result = learner.update(batch, 0)
        torch.testing.assert_close(result.terms["loss"], expected.detach())
        torch.testing.assert_close(result.terms["l1_loss"], terms["l1_loss"])
        assert result.lr == 1e-3
        assert result.grad_norm > 0


def test_ranks_cut_the_same_draws(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, _):
        whole = learner.draws(5)["latent_noise"]
        for rank in range(2):
            learner.share = Share(rank, 2, 2)
            assert torch.equal(learner.draws(5)["latent_noise"], whole[2 * rank : 2 * rank + 2])


def test_a_saved_state_of_another_policy_is_refused(command, tmp_path):
    with learner_of(command, tmp_path) as (learner, data):
        learner.update(data.batch([1, 5, 9, 20]), 0)
        state = learner.training_state(Position(1, 4))
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
        learner.update(data.batch([1, 5, 9, 20]), 0)
        state = learner.training_state(Position(1, 4))
    with learner_of(command, tmp_path, "--optimizer.lr=0.5") as (learner, data):
        learner.load_training_state(state)
        assert learner.update(data.batch([1, 5, 9, 20]), 1).lr == 0.5
