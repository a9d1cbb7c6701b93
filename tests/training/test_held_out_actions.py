"""Open-loop errors during training."""

from typing import Any

import pytest
import torch

from manyhands.config.commands.eval import (
    EvalCommandConfig,
    EvaluatedDatasetConfig,
    EvaluatedPolicyConfig,
)
from manyhands.config.resolve import read_train_config
from manyhands.errors import ConfigError, UserError
from manyhands.evaluation.action_errors import ABSOLUTE, SQUARED
from manyhands.evaluation.open_loop import OpenLoop
from manyhands.evaluation.open_loop_run import run_open_loop
from manyhands.launch.outcome import Ending
from manyhands.stop import StopSignal
from manyhands.training.start import run_training

HELD_OUT = ("--dataset.eval_split=0.5", "--eval_steps=2", "--steps=4", "--log_freq=10")
OPEN_LOOP = (*HELD_OUT, "--eval.open_loop=true")
ERROR = "open_loop_error"


def train(argv: list[str], stop: StopSignal | None = None) -> Ending:
    return run_training(read_train_config(argv), stop=stop)


def errors(row: dict[str, Any]) -> dict[str, float]:
    return {name: row[name] for name in row if name.startswith("open_loop_")}


@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_errors_are_those_that_the_eval_command_finds(
    policy, tmp_path, metrics, tiny_dataset, tiny_act, tiny_diffusion
):
    run_dir = tmp_path / "run"
    own = tiny_act if policy == "act" else tiny_diffusion
    flags = (*OPEN_LOOP, "--ema.enable=true", "--ema.decay=0.5", f"--dataset.root={tiny_dataset}")
    train([*own, *flags, f"--output_dir={run_dir}"])
    rows = metrics(run_dir)
    assert {step for step, row in rows.items() if ERROR in row} == {2, 4}
    for ending in ("", "_ema"):
        found = run_open_loop(
            EvalCommandConfig(
                policy=EvaluatedPolicyConfig(
                    path=str(run_dir), device="cpu", use_ema=ending == "_ema"
                ),
                dataset=EvaluatedDatasetConfig(root=tiny_dataset),
                output_dir=tmp_path / f"eval{ending}",
            )
        )
        assert found is not None and found.dataset.episodes.tolist() == [2, 3]
        overall = found.errors.overall()
        assert rows[4][f"{ERROR}{ending}"] == overall[ABSOLUTE]
        assert rows[4][f"open_loop_rmse{ending}"] == overall[SQUARED]
        for place, name in enumerate(found.joints):
            expected = found.errors.of_joint(place)[ABSOLUTE]
            assert rows[4][f"{ERROR}{ending}/{name}"] == expected
    assert rows[4][ERROR] != rows[4][f"{ERROR}_ema"]
    line = f"open-loop error {rows[4][ERROR]:.4g}"
    assert line in (run_dir / "log.txt").read_text()


def test_they_change_no_number_of_training(command, tmp_path, metrics, weights):
    plain, measured = tmp_path / "plain", tmp_path / "measured"
    own = ("--policy.dropout=0.1", "--ema.enable=true")
    train(command.argv(plain, *HELD_OUT, *own))
    train(command.argv(measured, *OPEN_LOOP, *own))
    for step, row in metrics(plain).items():
        for name in ("loss", "grad_norm", "held_out_loss", "held_out_loss_ema"):
            assert metrics(measured)[step].get(name) == row.get(name)
    before, after = weights(plain), weights(measured)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.process
def test_they_are_the_same_on_any_number_of_processes(command, tmp_path, metrics, in_ranks):
    flags = (*OPEN_LOOP, "--policy.optimizer_lr=1e-30", "--policy.n_action_steps=1")
    runs = [(number, tmp_path / str(number)) for number in (1, 2, 3)]
    in_ranks(
        [
            (number, folder, command.argv(folder, *flags, f"--batch_size={6 // number}"))
            for number, folder in runs
        ]
    )
    alone, *others = [errors(metrics(folder)[4]) for _, folder in runs]
    assert alone and others == [alone, alone]


def test_fewer_samples_may_be_measured(command, tmp_path, metrics):
    flags = (*OPEN_LOOP, "--policy.n_action_steps=1", "--policy.use_vae=false")
    train(command.argv(tmp_path / "all", *flags))
    train(command.argv(tmp_path / "some", *flags, "--max_eval_samples=3"))
    assert metrics(tmp_path / "all")[4][ERROR] != metrics(tmp_path / "some")[4][ERROR]


def test_a_stop_request_ends_them_and_a_resumed_run_measures_again(
    command, tmp_path, metrics, monkeypatch
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    flags = (*OPEN_LOOP, "--resume=auto", "--policy.n_action_steps=1")
    train(command.argv(whole, *flags))
    stop, measure = StopSignal(), OpenLoop.errors

    def measure_and_ask(*arguments: Any) -> Any:
        stop.request()
        return measure(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(OpenLoop, "errors", measure_and_ask)
        assert train(command.argv(parts, *flags), stop) is Ending.STOPPED
    assert not {"held_out_loss", ERROR} & metrics(parts)[2].keys()
    train(command.argv(parts, *flags))
    for step in (2, 4):
        assert errors(metrics(parts)[step]) == errors(metrics(whole)[step])
        assert metrics(parts)[step]["held_out_loss"] == metrics(whole)[step]["held_out_loss"]


def test_episodes_have_to_be_held_out(command, tmp_path):
    with pytest.raises(ConfigError, match=r"--eval.open_loop=true needs held-out episodes"):
        train(command.argv(tmp_path / "run", "--eval.open_loop=true", "--steps=1"))


@pytest.mark.process
def test_sharded_weights_are_refused_by_name(start_job, tmp_path):
    job = start_job(tmp_path / "run", 2, *OPEN_LOOP, "--parallelism.dp_shard=2")
    assert job.end()[0] == UserError.exit_code
    told = "--eval.open_loop=true: processes with sharded weights cannot predict"
    assert told in job.printed() and "Traceback" not in job.printed()
