"""Texts of a run's files on a page: of bounded length, whatever they contain."""

from collections.abc import Sequence
from itertools import takewhile

LONGEST = 2000
NUM_SHARED = 16  # Characters that all texts begin with and that remain before what differs.


def clipped(text: object, longest: int = LONGEST) -> str:
    """A text, or the start of one that is too long for a page."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"


def clipped_apart(texts: Sequence[str], longest: int) -> list[str]:
    """The texts, or if one is too long, what distinguishes them; numbered if nothing short does."""
    if max(map(len, texts)) <= longest:
        return [*texts]
    letters = zip(*texts, strict=False)
    num_same = sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, letters))
    shared = max(0, num_same - NUM_SHARED)
    ends = [f"…{text[shared:]}" if shared else text for text in texts]
    found = [_ends(end, longest) for end in ends]
    if len(set(found)) == len(set(texts)):
        return found
    return [f"{place}: {_ends(end, longest - 4)}" for place, end in enumerate(ends, 1)]


def _ends(text: str, longest: int) -> str:
    """A text, or the start and the end of a long one."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[: longest - half - 1]}…{text[-half:]}"
