"""Runs that are planned."""

from dataclasses import replace

import pytest

from manyhands.cli.plan import read_plan_flags
from manyhands.plan.plan import CPU, describe_run
from manyhands.training.setup.assemble import build_initial_policy

SHAPES = ("--cameras=0", "--state_dim=3", "--action_dim=2")


@pytest.fixture(scope="session")
def planned(tiny_act):
    """Makes a config and its policy, tiny and without data: (config, policy)."""

    def make(*flags):
        plan, config = read_plan_flags([*SHAPES, *tiny_act, *flags])
        config, stats, _ = describe_run(plan, replace(config, steps=10))
        return config, build_initial_policy(config, stats, CPU)[0]

    return make
