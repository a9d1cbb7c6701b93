"""Texts of a run's files on a page: of bounded length, whatever they contain."""

LONGEST = 2000


def clipped(text: object, longest: int = LONGEST) -> str:
    """A text, or the start of one that is too long for a page."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"
