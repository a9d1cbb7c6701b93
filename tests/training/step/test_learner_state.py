"""What training taught a learner goes to shards and back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from manyhands.checkpoint.shards import Shards, shard_file, write_shard
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.execution import BOTH
from manyhands.data.loading.stream import BatchSplit
from manyhands.parallel.accelerate_engine import AccelerateEngine
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.step.learner import Learner
from manyhands.training.step.train_step import TrainStep


@contextmanager
def learner_of(command, run_dir) -> Iterator[Learner]:
    """A learner after one update that averages, and saves in shards."""
    argv = command.argv(run_dir, "--batch_size=4", "--ema.enable=true", "--ema.decay=0.9")
    data, config = open_training_data(read_train_config(argv), alone)
    with joined_world(config) as world:
        world.strategy = replace(world.strategy, checkpoint_format=BOTH)
        policy, _ = build_initial_policy(config, data.stats, world.device)
        learner = Learner(
            TrainStep(policy, config, AccelerateEngine(world, 1), world, BatchSplit(0, 1, 4)),
            config,
        )
        for step in range(3):
            learner.train_step(data.source.batch([1, 5, 9, 20]), step)
        yield learner


def remembered(learner: Learner) -> dict[str, Tensor]:
    """Everything that a learner has to save."""
    return {name: part.values.clone() for name, part in learner.memory.shards().items()}


def test_what_is_saved_in_shards_comes_back(command, tmp_path):
    with learner_of(command, tmp_path / "run") as learner:
        saved, groups = learner.memory.shards(), learner.memory.optimizer_state([1e-3, 1e-3])
        known = remembered(learner)
    assert groups["state"] == {}
    assert {name.partition("/")[0] for name in saved} == {
        "pretrained_model",
        "pretrained_model_ema",
        "state",
    }
    write_shard(shard_file(tmp_path, 0, 1), saved)
    with learner_of(command, tmp_path / "run") as learner:
        with torch.no_grad():
            for weight in learner.policy.network.parameters():
                weight.zero_()
        memory, shards = learner.memory, Shards(tmp_path)
        memory.load_policy(tmp_path / "pretrained_model", shards)
        memory.load_optimizer(groups, shards)
        memory.load_average(tmp_path / "pretrained_model_ema", shards)
        found = remembered(learner)
    assert found.keys() == known.keys()
    assert all(torch.equal(found[name], value) for name, value in known.items())


def test_a_loaded_average_starts_from_the_weights(command, tmp_path):
    with learner_of(command, tmp_path / "run") as learner:
        write_shard(shard_file(tmp_path, 0, 1), learner.memory.shards())
        learner.memory.load_policy(tmp_path / "pretrained_model", Shards(tmp_path))
        found = remembered(learner)
    live = {name for name in found if name.startswith("pretrained_model/")}
    for name in live:
        averaged = found[name.replace("pretrained_model/", "pretrained_model_ema/")]
        torch.testing.assert_close(averaged, found[name])
