"""Garbage is looked for again, whatever happened meanwhile."""

import gc

import pytest

from manyhands.garbage import left_lying


def test_nothing_is_looked_for_until_the_end():
    with left_lying():
        assert not gc.isenabled()
        with left_lying():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_does_not_end_the_search_for_good():
    with pytest.raises(ValueError, match="wrong"), left_lying():
        raise ValueError("wrong")
    assert gc.isenabled()
