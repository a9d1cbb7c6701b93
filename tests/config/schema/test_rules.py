"""The sentences about values out of bounds."""

from types import SimpleNamespace

from manyhands.config.schema.rules import at_least, one_of

CONFIG = SimpleNamespace(width=0, depth=None, layers=2, mode="fast")


def test_a_value_below_its_minimum_is_named_and_null_passes():
    faults = [*at_least(CONFIG, "policy.", 1, "width", "depth", "layers")]
    assert faults == ["--policy.width=0 must be at least 1"]


def test_a_value_that_is_no_choice_is_named_with_the_choices():
    assert [*one_of(CONFIG, "step.", mode=("slow", "fast"))] == []
    (fault,) = one_of(CONFIG, "step.", mode=("slow", "safe"))
    assert fault == "--step.mode=fast is not one of slow, safe"
