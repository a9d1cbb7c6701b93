"""Which steps are profiled."""

import pytest

from manyhands.config.sections.profile import profile_faults, profiled_steps


def test_steps_are_a_range_or_a_few_after_the_start():
    assert profiled_steps(None, start=0) is None
    assert profiled_steps("steps", start=100) == range(111, 116)
    assert profiled_steps("7:9", start=100) == range(7, 10)


@pytest.mark.parametrize("text", ["", "7", "9:7", "0:3", "a:b", "1:2:3", "true"])
def test_other_texts_name_no_steps(text):
    (fault,) = profile_faults(text)
    assert fault.startswith(f"--profile={text} is not a range of steps")
