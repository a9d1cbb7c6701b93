"""A finished run that is resumed is reported by the main rank alone."""

from dataclasses import replace

from manyhands.config.launch.launcher import Launcher
from manyhands.config.resolve import read_train_config
from manyhands.launch.outcome import Ending
from manyhands.stop import StopSignal
from manyhands.training.finished_run import has_nothing_to_do
from manyhands.training.start import run_training


def test_a_finished_run_is_reported_once(command, tmp_path, capsys):
    run_dir = tmp_path / "run"
    assert run_training(read_train_config(command.argv(run_dir, "--steps=1"))) is Ending.FINISHED
    config, stop, printed = read_train_config([f"--resume={run_dir}"]), StopSignal(), []
    for rank in range(2):
        capsys.readouterr()
        assert has_nothing_to_do(config, Launcher(rank=rank, num_ranks=2), stop)
        printed.append(capsys.readouterr().out)
    assert f"{run_dir} is finished: step 1 of 1" in printed[0] and printed[1] == ""
    assert not has_nothing_to_do(config, Launcher(is_ours=True), stop)
    assert not has_nothing_to_do(replace(config, steps=2), Launcher(), stop)
