"""The process that tries compiled steps, and runs that rely on it."""

import json
import os
import pickle
import shutil
import signal
from pathlib import Path

import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.launch import environment
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_learner
from manyhands.training.setup.batch import split_batch
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.step.train_step import StepInputs
from manyhands.training.step.trial import Trial
from manyhands.training.step.trial_process import build_policy

INPUTS = StepInputs({"x": torch.ones(2, 3)}, {})
ON_A_GPU = ("--policy.device=cuda", "--steps=10000000", "--save_freq=10000000")
AT_ONCE = "--step.compile_min_left_s=0"
LARGE = (
    "--policy.dim_model=512",
    "--policy.n_heads=8",
    "--policy.dim_feedforward=3200",
    "--policy.chunk_size=100",
    "--policy.n_encoder_layers=4",
    "--optimizer.lr=1e-5",
    "--batch_size=64",
)
"""So large that a compiled step is faster for certain."""
TRIAL_S = 500
"""A trial has the lowest priority, and other tests compile beside it."""

SITE = """
import importlib.abc
import importlib.util
import sys

NAME = "manyhands.policies.act.transformer"


class Planting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def plant(module):
            execute(module)
            import torch
            forward = module.Encoder.forward

            def faulty(self, *given, **named):
                found = forward(self, *given, **named)
                if torch.compiler.is_compiling():
                    import planted
                    found = planted.beyond(found)
                return found

            module.Encoder.forward = faulty

        spec.loader.exec_module = plant
        return spec


if "manyhands.training.step.trial_process" in sys.orig_argv:
    sys.meta_path.insert(0, Planting())
"""


def test_another_process_builds_the_same_network(command, tmp_path, monkeypatch):
    monkeypatch.setenv(environment.KERNELS, str(tmp_path / "kernels"))
    config = read_train_config(command.argv(tmp_path / "run"))
    data, config = open_training_data(config, alone)
    with joined_world(config) as world:
        learner, _ = build_learner(config, data.stats, world, split_batch(config, 0, 1))
    sent = pickle.dumps(Trial(config, learner.step)._request(INPUTS, max_bytes=1))
    policy = build_policy(pickle.loads(sent), torch.device("cpu"))
    theirs, own = policy.network.state_dict(), learner.policy.network.state_dict()
    assert {name: value.shape for name, value in theirs.items()} == {
        name: value.shape for name, value in own.items()
    }
    assert [each.requires_grad for each in policy.network.parameters()] == [
        each.requires_grad for each in learner.policy.network.parameters()
    ]


@pytest.mark.gpu
@pytest.mark.timeout(2 * TRIAL_S)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
class TestOnAGpu:
    """What only a real device can show."""

    @pytest.mark.gpu_serial
    def test_a_run_switches_and_a_resumed_one_begins_compiled(
        self, start_job, tmp_path, monkeypatch
    ):
        monkeypatch.setenv(environment.KERNELS, str(tmp_path / "kernels"))
        first = self.stopped_after(
            start_job(tmp_path / "run", 1, *ON_A_GPU, *LARGE, AT_ONCE), "Switched to"
        )
        (verdict,) = (tmp_path / "kernels").glob("*/*.json")
        assert json.loads(verdict.read_text())["is_faster"], first
        resumed = start_job(tmp_path / "run", 1, "--resume=auto", *ON_A_GPU, *LARGE, AT_ONCE)
        self.stopped_after(resumed, "cached by an earlier run")

    def test_an_illegal_access_in_a_compiled_step_leaves_a_run_in_graph_mode(
        self, start_job, tmp_path, monkeypatch
    ):
        site = tmp_path / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE)
        shutil.copy(Path(__file__).with_name("planted.py"), site)
        path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.setenv(environment.KERNELS, str(tmp_path / "kernels"))
        job = start_job(tmp_path / "run", 1, *ON_A_GPU, AT_ONCE)
        printed = self.stopped_after(job, "Compiled step not used: its trial")
        assert "illegal" in printed or "killed by signal" in printed

    def stopped_after(self, job, words: str) -> str:
        """Let a run train until it logs something, and on for a while; then stop it."""
        decided = (words, "Switched to", "Compiled step not", "Compiled step disabled")
        job.wait_until(lambda: any(each in job.printed() for each in decided), TRIAL_S)
        assert words in job.printed(), job.printed()
        step = job.last_step()
        job.wait_until(lambda: job.last_step() > step + 10)
        job.launcher.send_signal(signal.SIGTERM)
        assert job.end()[0] == 75, job.printed()
        return job.printed()
