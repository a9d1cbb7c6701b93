"""An average of the weights."""

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.sections.optim import EmaConfig
from manyhands.errors import ConfigError


def test_the_average_is_off_and_lerobots():
    ema = EmaConfig()
    assert (ema.enable, ema.decay, ema.update_after_step, ema.use_for_eval) == (
        False,
        None,
        0,
        True,
    )
    assert (ema.inv_gamma, ema.power, ema.min_decay, ema.max_decay) == (1.0, 0.75, 0.0, 0.9999)
    assert list(ema.faults()) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"decay": 1.5}, "--ema.decay=1.5"),
        ({"min_decay": -0.1}, "--ema.min_decay=-0.1"),
        ({"min_decay": 0.9, "max_decay": 0.5}, "above --ema.max_decay=0.5"),
        ({"update_after_step": -1}, "--ema.update_after_step=-1"),
        ({"inv_gamma": 0.0}, "--ema.inv_gamma=0.0"),
        ({"power": float("nan")}, "--ema.power=nan"),
        ({"decay": 0.5, "min_decay": 0.1}, "--ema.min_decay has no effect"),
        ({"decay": 0.5, "max_decay": 0.9}, "--ema.max_decay has no effect"),
        ({"decay": 0.5, "power": 0.5}, "--ema.power has no effect"),
    ],
)
def test_an_average_that_cannot_be_is_refused_by_name(values, named):
    (fault,) = EmaConfig(**values).faults()
    assert named in fault


def test_details_of_an_average_that_nobody_asked_for_are_refused():
    argv = ["--dataset.root=data", "--policy.type=act", "--ema.decay=0.5"]
    with pytest.raises(ConfigError, match=r"--ema\.decay has no effect without --ema\.enable=true"):
        read_train_config(argv)
    assert read_train_config([*argv, "--ema.enable=true"]).ema.decay == 0.5
