"""Runs that updates are timed of."""

from contextlib import contextmanager

import pytest

from manyhands.parallel.world import joined_world
from manyhands_bench.step.command import read_step_flags
from manyhands_bench.step.subject import subject_of

SHAPES = ("--cameras=0", "--state_dim=3", "--action_dim=2")


@pytest.fixture
def open_subject(tiny_act):
    """Opens a tiny run without a camera on synthetic data: (measurement, subject, world)."""

    @contextmanager
    def opened(*flags, shapes=SHAPES):
        own = ("--num_steps=3", "--warm_up=1", "--batch_size=4")
        bench, config = read_step_flags([*shapes, *tiny_act, *own, *flags])
        with joined_world(config) as world:
            yield bench, subject_of(bench, config, world), world

    return opened
