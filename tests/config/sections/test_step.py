"""How steps are to run."""

from manyhands.config.sections.execution import STEP_MODES, StepConfig


def test_a_mode_that_does_not_exist_is_refused_with_those_that_do():
    assert all(not [*StepConfig(mode=mode).faults()] for mode in STEP_MODES)
    (fault,) = StepConfig(mode="jit").faults()
    assert fault == "--step.mode=jit is not one of auto, eager, graph, compile"


def test_a_negative_time_is_rejected():
    (fault,) = StepConfig(compile_min_left_s=-1).faults()
    assert fault == "--step.compile_min_left_s=-1 must be at least 0"
