"""Garbage is looked for again, whatever happened meanwhile."""

import gc

import pytest

from manyhands.garbage import paused


def test_nothing_is_looked_for_until_the_end():
    with paused():
        assert not gc.isenabled()
        with paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_does_not_end_the_search_for_good():
    with pytest.raises(ValueError, match="wrong"), paused():
        raise ValueError("wrong")
    assert gc.isenabled()
