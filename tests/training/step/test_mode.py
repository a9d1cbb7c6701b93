"""Which way to run steps is taken."""

from typing import Any, cast

import torch

from manyhands.config.resolve import read_train_config
from manyhands.parallel.world import joined_world
from manyhands.training.step.auto_compile import build_step
from manyhands.training.step.executors import StepWork


def test_on_a_cpu_steps_run_eagerly_in_every_mode(command, tmp_path):
    logged: list[str] = []
    for mode in ("auto", "eager", "graph", "compile"):
        config = read_train_config(command.argv(tmp_path / "run", f"--step.mode={mode}"))
        optimizer = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())
        with joined_world(config) as world:
            work = StepWork(cast(Any, print), dict, cast(Any, None), cast(Any, None), world)
            assert build_step(config, work, optimizer, logged.append).mode == "eager"
    assert logged == []
