"""Which way to carry out updates is taken."""

import torch

from manyhands.config.resolve import read_train_config
from manyhands.parallel.world import joined_world
from manyhands.training.execution import Work
from manyhands.training.modes import execution_of


def test_on_a_cpu_updates_are_made_one_operation_at_a_time_in_every_mode(command, tmp_path):
    told: list[str] = []
    for mode in ("auto", "eager", "graph", "compile"):
        config = read_train_config(command.argv(tmp_path / "run", f"--step.mode={mode}"))
        network = torch.nn.Linear(2, 2)
        optimizer = torch.optim.AdamW(network.parameters())
        with joined_world(config) as world:
            work = Work(print, dict, print, network, world)
            assert execution_of(config, work, optimizer, told.append).mode == "eager"
    assert told == []
