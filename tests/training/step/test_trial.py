"""A trial is made by another process, and its end is a verdict whatever that is."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.launch import environment
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_learner
from manyhands.training.setup.batch import split_batch
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.step import trial
from manyhands.training.step.learner import Learner
from manyhands.training.step.train_step import StepInputs
from manyhands.training.step.trial import Trial, kernel_facts
from manyhands.training.step.verdict import Verdict

INPUTS = StepInputs({"x": torch.ones(2, 3)}, {})


def learner_for(argv: list[str]) -> Learner:
    config = read_train_config(argv)
    data, config = open_training_data(config, alone)
    with joined_world(config) as world:
        return build_learner(config, data.stats, world, split_batch(config, 0, 1))[0]


@pytest.fixture
def started(command, tmp_path, monkeypatch) -> Trial:
    """A trial of a small policy, with its verdicts in a folder of the test."""
    monkeypatch.setenv(environment.KERNELS, str(tmp_path / "kernels"))
    learner = learner_for(command.argv(tmp_path / "run"))
    found = Trial(learner.config, learner.step)
    assert found.verdict(INPUTS) is None
    return found


def run(found: Trial) -> Verdict | None:
    found._run(found._request(INPUTS, max_bytes=1 << 30))
    return found.verdict(INPUTS)


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another program make trials."""
    folder.mkdir()
    (folder / "trial_of_a_test.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(trial, "PROGRAM", "trial_of_a_test")
    monkeypatch.setattr(trial, "COMPILER", "json")


READ = "import sys\nsys.stdin.buffer.read()\n"


def test_the_verdict_of_a_trial_is_kept_for_later_runs(started, tmp_path, monkeypatch):
    write = "import pickle, sys\nrequest = pickle.load(sys.stdin.buffer)\n"
    write += "from manyhands.training.step.verdict import Verdict\n"
    write += "verdict = Verdict(is_faster=True, reason=str(request.inputs.batch['x'].shape))\n"
    program(tmp_path / "a", f"{write}request.verdicts.write(request.key, verdict)", monkeypatch)
    expected = Verdict(is_faster=True, reason="torch.Size([2, 3])")
    assert run(started) == expected
    assert Trial(started._config, started._step).verdict(INPUTS) == expected
    other = StepInputs({"x": torch.ones(2, 4)}, {})
    assert Trial(started._config, started._step).verdict(other) is None


@pytest.mark.parametrize(("is_final", "num_files"), [(True, 1), (False, 0)])
def test_a_slower_step_on_a_busy_gpu_is_tried_again_by_the_next_run(
    started, tmp_path, monkeypatch, is_final, num_files
):
    write = "import pickle, sys\nrequest = pickle.load(sys.stdin.buffer)\n"
    write += "from manyhands.training.step.verdict import Verdict\n"
    write += f"verdict = Verdict(is_faster=False, is_final={is_final}, reason='slow')\n"
    program(tmp_path / "a", f"{write}request.verdicts.write(request.key, verdict)", monkeypatch)
    assert run(started) == Verdict(is_faster=False, is_final=is_final, reason="slow")
    assert len([*tmp_path.glob("kernels/*/*.json")]) == num_files
    assert (Trial(started._config, started._step).verdict(INPUTS) is not None) == is_final


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{READ}import os; os.abort()", "was killed by signal 6"),
        (f"{READ}raise RuntimeError('CUDA error')", "exit code 1: RuntimeError: CUDA error"),
        (READ, "failed with exit code 0: it printed nothing"),
    ],
)
def test_a_trial_that_dies_is_a_verdict_with_its_last_words(
    started, tmp_path, monkeypatch, text, told
):
    program(tmp_path / "a", text, monkeypatch)
    verdict = run(started)
    assert verdict is not None and not verdict.is_faster and told in verdict.reason
    assert str(started.verdicts.log_path(started._key)) in verdict.reason
    assert Trial(started._config, started._step).verdict(INPUTS) == verdict


def test_a_trial_that_runs_out_of_memory_is_made_again_by_the_next_run(
    started, tmp_path, monkeypatch
):
    program(tmp_path / "a", f"{READ}raise RuntimeError('CUDA out of memory')", monkeypatch)
    verdict = run(started)
    assert verdict is not None and not verdict.is_faster
    assert Trial(started._config, started._step).verdict(INPUTS) is None


def test_a_trial_that_is_closed_leaves_no_process_and_no_verdict(started, tmp_path, monkeypatch):
    program(tmp_path / "a", "import time; time.sleep(600)", monkeypatch)
    started._is_closed = True
    assert run(started) is None
    assert started._process is not None and started._process.poll() is not None


def test_facts_depend_on_what_a_step_computes_and_not_on_where_it_runs(command, tmp_path):
    plain = learner_for(command.argv(tmp_path / "run"))
    facts = kernel_facts(plain.config, plain.step, INPUTS)
    elsewhere = learner_for(
        command.argv(tmp_path / "other", "--seed=5", "--steps=77", "--optimizer.lr=7e-4")
    )
    assert facts == kernel_facts(elsewhere.config, elsewhere.step, INPUTS)
    faster = learner_for(command.argv(tmp_path / "faster", "--policy.optimizer_lr=7e-4"))
    assert facts == kernel_facts(faster.config, faster.step, INPUTS)
    decayed = learner_for(command.argv(tmp_path / "d", "--policy.optimizer_weight_decay=0.5"))
    assert facts != kernel_facts(decayed.config, decayed.step, INPUTS)
    averaged = learner_for(command.argv(tmp_path / "other", "--ema.enable=true"))
    assert facts != kernel_facts(averaged.config, averaged.step, INPUTS)
    plain.step.split = replace(plain.split, num_micro_batches=2)
    assert facts != kernel_facts(plain.config, plain.step, INPUTS)
