"""Endings and exit codes."""

import pytest

from manyhands.errors import Diverged, UserError
from manyhands.launch.outcome import Ending, ending_from_exit_code


def test_endings_and_exit_codes_are_inverse():
    assert [ending_from_exit_code(ending.exit_code) for ending in Ending] == list(Ending)
    assert Ending.STOPPED.exit_code == 75


def test_failures_are_raised():
    with pytest.raises(Diverged):
        ending_from_exit_code(3)
    with pytest.raises(UserError, match="137"):
        ending_from_exit_code(137)
