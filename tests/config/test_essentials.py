"""The examples that --help shows."""

import pytest

from manyhands.config.essentials import ESSENTIALS
from manyhands.config.resolve import read_train_config
from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig

EXAMPLES = [example for examples in ESSENTIALS.values() for example in examples]
PLACES = ("DIR", "NAME")


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_flag_with_a_value_that_is_accepted(example):
    name, _, value = example.partition("=")
    assert name in {f"--{flag.name}" for flag in flags_of(TrainConfig)}
    if value not in PLACES:
        read_train_config(["--dataset.root=DIR", "--policy.type=act", example])
