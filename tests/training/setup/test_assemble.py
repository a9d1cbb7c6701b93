"""From a config to the parts of a run."""

from contextlib import contextmanager

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.resolve import read_train_config
from manyhands.errors import WeightsUnavailable
from manyhands.launch.outcome import Ending
from manyhands.observe.jsonl import read_rows
from manyhands.observe.run_log import RunLog
from manyhands.parallel.world import joined_world
from manyhands.policies.load import load_policy
from manyhands.training.periods import StopPoll
from manyhands.training.setup import assemble as assembling
from manyhands.training.setup.assemble import build_initial_policy, build_learner, fresh_policy
from manyhands.training.setup.batch import split_batch
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.start import run_training

CAMERA = "observation.images.top"


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A machine without the published weights and without a way to fetch them."""
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path / "hub"))
    monkeypatch.setattr("manyhands.policies.vision.imagenet._PUBLISHER", "http://127.0.0.1:9")


def camera_policy(weights: str) -> ActConfig:
    return ActConfig(
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (3,)),
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        vision_backbone=weights.partition("_")[0].lower(),
        pretrained_backbone_weights=weights,
    )


def test_default_pretrained_backbone_weights_are_done_without_offline_and_aloud(offline):
    policy, notes = fresh_policy(camera_policy("ResNet18_Weights.IMAGENET1K_V1"), {}, {})
    assert policy.config.pretrained_backbone_weights is None
    assert "random weights" in notes[0]
    assert "--policy.pretrained_backbone_weights=null" in notes[0]


def test_pretrained_backbone_weights_asked_for_by_name_are_refused_offline(offline):
    with pytest.raises(WeightsUnavailable, match="resnet34"):
        fresh_policy(camera_policy("ResNet34_Weights.IMAGENET1K_V1"), {}, {})


def test_no_other_thread_uses_a_gpu_once_ranks_communicate_by_it(
    command, tmp_path, tiny_dataset, monkeypatch
):
    happened = []

    @contextmanager
    def warm_up(_device):
        yield
        happened.append("warm")

    def engine_of(*arguments):
        happened.append("engine")
        return make_engine(*arguments)

    make_engine = assembling.build_engine
    monkeypatch.setattr(assembling, "warming_up", warm_up)
    monkeypatch.setattr(assembling, "build_engine", engine_of)
    data, config = open_training_data(read_train_config(command.argv(tmp_path / "run")), alone)
    with joined_world(config) as world:
        build_learner(config, data.stats, world, split_batch(config, 0, 1))
    assert happened == ["warm", "engine"]


def test_training_starts_from_the_weights_of_policy_path(command, tmp_path, tiny_dataset):
    run_training(read_train_config(command.argv(tmp_path / "first", "--steps=1")))
    first = tmp_path / "first" / "checkpoints" / "last"
    flags = [f"--dataset.root={tiny_dataset}", f"--policy.path={first}"]
    data, config = open_training_data(read_train_config(flags), alone)
    with joined_world(config) as world:
        policy, _ = build_initial_policy(config, data.stats, world.device)
    for name, value in load_policy(first).network.state_dict().items():
        assert torch.equal(value, policy.network.state_dict()[name]), name


def rows_of(run_dir):
    names = ("step", "loss", "lr", "grad_norm")
    return [[row[name] for name in names] for row in read_rows(run_dir / "metrics.jsonl")]


def test_rows_after_a_stop_and_a_resume_are_those_of_one_run(command, tmp_path, monkeypatch):
    flags = ("--steps=9", "--log_freq=4", "--save_freq=6")
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run_training(read_train_config(command.argv(whole, *flags)))
    steps = []
    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "advance", lambda self, step, recent: steps.append(step))
        patch.setattr(StopPoll, "after_step", lambda self, force=False: 3 in steps)
        ending = run_training(read_train_config(command.argv(stopped, *flags)))
    assert ending is Ending.STOPPED
    assert [row[0] for row in rows_of(stopped)] == [1, 3]
    run_training(read_train_config([f"--resume={stopped}"]))
    assert [row[0] for row in rows_of(whole)] == [1, 4, 6, 8, 9]
    assert rows_of(stopped) == rows_of(whole)
