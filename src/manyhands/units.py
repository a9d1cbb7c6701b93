"""Counts, bytes and durations as people read them."""

import re
from fractions import Fraction

_PREFIXES = " KMGT"


def count(number: float) -> str:
    """A count with a suffix: 950, 12.3K, 51.6M."""
    for limit, suffix in ((1e9, "B"), (1e6, "M"), (1e4, "K")):
        if abs(number) >= limit:
            return f"{number / (1e3 if suffix == 'K' else limit):.1f}{suffix}"
    return f"{number:,.0f}"


def num_bytes(number: float) -> str:
    """A size in binary units: 512 B, 1.5 KiB, 11.0 GiB."""
    for power, suffix in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if number >= 1024**power:
            return f"{number / 1024**power:.1f} {suffix}"
    return f"{number:.0f} B"


def parse_bytes(text: str) -> int:
    """The size in a text like 16GiB, 500MB or 0; a bare K, M, G or T is binary."""
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([KMGT]?)(I?)(B?)\s*", text.upper())
    if match is None or (match[3] and not match[2]):
        raise ValueError(f"{text!r} is not a size. Write it like 16GiB, 500MB or 0")
    number, prefix, binary, unit = match.groups()
    base = 1000 if unit and not binary else 1024
    return int(Fraction(number) * base ** _PREFIXES.index(prefix or " "))


def duration(seconds: float) -> str:
    """A span of time with its two largest units: 0.4 s, 38 s, 4 min 05 s, 3 h 12 min, 2 d 07 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"
