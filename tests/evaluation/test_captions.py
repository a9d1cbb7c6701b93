"""Captions are legible: each character differs from all others, at every size."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.evaluation.captions import STROKES, caption_coverage

TEXTS = st.text(st.sampled_from(sorted(STROKES)), min_size=1, max_size=40)


@given(text=TEXTS, scale=st.integers(1, 4))
def test_a_caption_is_its_characters_side_by_side(text, scale):
    coverage = caption_coverage(text, scale)
    assert coverage.shape[0] == len(caption_coverage(" ", scale))
    assert coverage.min() >= 0 and coverage.max() <= 1
    alone = [caption_coverage(character, scale) for character in text]
    assert (coverage == np.concatenate(alone, axis=1)).all()


@pytest.mark.parametrize("scale", [1, 3])
def test_no_two_characters_look_alike(scale):
    drawn = {character: caption_coverage(character, scale) for character in STROKES}
    width = max(coverage.shape[1] for coverage in drawn.values())
    padded = {
        character: np.pad(coverage, ((0, 0), (0, width - coverage.shape[1])))
        for character, coverage in drawn.items()
    }
    for one, other in combinations(padded, 2):
        differing = np.abs(padded[one] - padded[other]).sum() / scale**2
        assert differing > 2, (one, other)


@pytest.mark.parametrize("scale", [1, 2])
def test_characters_do_not_touch(scale):
    for character in STROKES:
        coverage = caption_coverage(character, scale)
        assert coverage[:, 0].max() < 0.5 and coverage[:, -1].max() < 0.5, character
        assert character == " " or coverage.max() > 0.9
