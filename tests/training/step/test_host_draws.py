"""A policy of another package may draw from Python's and NumPy's generators."""

import random

import numpy as np
import pytest

from manyhands.config.resolve import read_train_config
from manyhands.observe.jsonl import read_rows
from manyhands.policies.act.network import ActNetwork
from manyhands.training.start import run_training
from manyhands.training.step import learner as host_draws
from manyhands.training.step.learner import seed_host_rng, uses_host_rng


@pytest.fixture
def drawing_act(monkeypatch):
    """ACT as if another package added it, with losses that depend on global generators."""
    forward = ActNetwork.forward

    def drawing(self, batch, draws):
        factor = 1 + random.random() + np.random.rand()
        terms = forward(self, batch, draws)
        return {name: term._replace(total=term.total * factor) for name, term in terms.items()}

    monkeypatch.setattr(ActNetwork, "forward", drawing)
    monkeypatch.setattr(host_draws, "OWN", {})


def losses_of(run_dir):
    return [(row["step"], row["loss"]) for row in read_rows(run_dir / "metrics.jsonl")]


@pytest.mark.usefixtures("drawing_act")
def test_a_policy_that_draws_on_the_host_resumes_exactly(command, tmp_path):
    flags = ("--log_freq=1", "--save_freq=2", "--steps=4")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_training(read_train_config(command.argv(whole, *flags)))
    run_training(read_train_config(command.argv(cut, *flags)))
    random.seed(99)
    np.random.seed(99)
    run_training(read_train_config([f"--resume={cut}/checkpoints/000002"]))
    assert len(losses_of(whole)) == 4
    assert losses_of(cut) == losses_of(whole)


def test_only_policies_of_others_pay_for_it():
    assert not uses_host_rng("act")
    assert uses_host_rng("theirs")


def test_both_generators_follow_the_seed():
    drawn = []
    for seed in (2**62 + 1, 2**62 + 1, 2**62 + 2):
        seed_host_rng(seed)
        drawn.append((random.random(), np.random.rand()))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[2][0]
    assert drawn[0][1] != drawn[2][1]
