"""Counts, bytes and durations as people read them."""


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


def duration(seconds: float) -> str:
    """A span of time with its two largest units: 0.4 s, 38 s, 4 min 05 s, 3 h 12 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
