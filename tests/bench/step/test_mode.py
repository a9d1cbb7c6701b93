"""Modes of one measurement."""

from dataclasses import replace

import pytest
import torch

from manyhands.config.sections.execution import StepConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.row import modes_of, with_mode

CPU, GPU = torch.device("cpu"), torch.device("cuda")
CONFIG = TrainConfig(step=StepConfig(mode="graph"))


def test_the_mode_of_the_run_is_measured_where_no_others_are_named():
    assert modes_of(BenchStepConfig(), CONFIG, GPU) == ["graph"]


def test_the_mode_of_the_run_is_the_main_one_of_several():
    bench = BenchStepConfig(compare=["eager", "compile", "graph"])
    assert modes_of(bench, CONFIG, GPU) == ["graph", "eager", "compile"]
    assert modes_of(bench, TrainConfig(), GPU) == ["eager", "compile", "graph"]


def test_on_the_cpu_every_mode_is_eager():
    assert modes_of(BenchStepConfig(), CONFIG, CPU) == ["eager"]
    assert modes_of(BenchStepConfig(compare=["eager"]), CONFIG, CPU) == ["eager"]
    with pytest.raises(EnvironmentFault, match="--compare="):
        modes_of(BenchStepConfig(compare=["eager", "graph"]), CONFIG, CPU)


def test_a_run_changes_nothing_but_its_mode():
    changed = with_mode(CONFIG, "eager")
    assert changed.step.mode == "eager"
    assert replace(changed, step=CONFIG.step) == CONFIG
