"""Which way to run steps is taken."""

from types import SimpleNamespace
from typing import cast

from manyhands.config.resolve import read_train_config
from manyhands.parallel.world import joined_world
from manyhands.training.step.auto_compile import build_executor
from manyhands.training.step.train_step import TrainStep


def test_on_a_cpu_steps_run_eagerly_in_every_mode(command, tmp_path):
    logged: list[str] = []
    for mode in ("auto", "eager", "graph", "compile"):
        config = read_train_config(command.argv(tmp_path / "run", f"--step.mode={mode}"))
        with joined_world(config) as world:
            step = cast(TrainStep, SimpleNamespace(world=world))
            assert build_executor(config, step, logged.append).mode == "eager"
    assert logged == []
