"""Axes of charts: their range, their ticks, and the unit that suits their values."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NICE_STEPS = (1, 2, 2.5, 5, 10)
LOG_SPAN = 15  # Ratio of values from which a logarithmic axis shows more
NARROWEST = 1e-6  # Of the values' size: what spans less is widened
SMALLEST = 1e-290  # Smaller values are zero: no step fits between them


@dataclass(frozen=True)
class Axis:
    """A range of values, and the ones that are labeled."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def places(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Where values lie, from 0 at the low end to 1 at the high one."""
        scaled, (low, high) = np.asarray(values, np.float64), (self.low, self.high)
        if self.is_log:
            scaled, low, high = np.log10(scaled), math.log10(low), math.log10(high)
        return np.asarray((scaled - low) / (high - low))

    def scaled(self, factor: float) -> "Axis":
        """The same axis for values that are multiplied by a factor."""
        ticks = tuple(tick * factor for tick in self.ticks)
        return Axis(self.low * factor, self.high * factor, ticks, self.is_log)


def linear_axis(low: float, high: float, max_ticks: int, is_tight: bool = False) -> Axis:
    """An axis from tick to tick, or a tight one from value to value."""
    low, high = (0.0 if abs(each) < SMALLEST else each for each in (low, high))
    least = NARROWEST * max(abs(low), abs(high))
    if high - low <= least:
        margin = max(least, abs(high) / 10) or 1.0
        low, high = (low, low + 10 * margin) if low == 0 else (low - margin, high + margin)
    step = nice_step((high - low) / max_ticks)
    first, last = (
        (math.ceil(low / step), math.floor(high / step))
        if is_tight
        else (math.floor(low / step), math.ceil(high / step))
    )
    ticks = tuple(place * step for place in range(first, last + 1))
    return Axis(low, high, ticks) if is_tight else Axis(ticks[0], ticks[-1], ticks)


def nice_step(least: float) -> float:
    """The smallest 1, 2, 2.5 or 5 times a power of ten that is not below a width."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(part * power for part in NICE_STEPS if part * power >= least * (1 - 1e-9))


def log_axis(low: float, high: float, max_ticks: int) -> Axis:
    """A logarithmic axis over positive values, labeled at powers of ten and between if few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= 1 else (1, 3) if last - first <= 3 else (1,)
    places = [part * 10.0**power for power in range(first, last + 1) for part in parts]
    low = max(place for place in places if place <= low * (1 + 1e-9))
    high = min((place for place in places if place >= high * (1 - 1e-9)), default=10.0**last)
    inside = [place for place in places if low <= place <= high]
    every = -(-len(inside) // max_ticks)
    return Axis(low, high, tuple(inside[::every]), is_log=True)


@dataclass(frozen=True)
class Unit:
    """What the numbers of an axis are multiplied by, and what follows them."""

    factor: float = 1.0
    symbol: str = ""


def unit_for(kind: str, largest: float) -> Unit:
    """The unit for values of a kind: `s`, `bytes`, `share` or anything else as it is."""
    if kind == "share":
        return Unit(100, "%")
    if kind == "bytes":
        return Unit(2.0**-30, "GiB") if largest >= 2**29 else Unit(2.0**-20, "MiB")
    if kind == "s":
        return Unit(1, "s") if largest >= 1 else Unit(1e3, "ms")
    return Unit(1, kind)


def labels(axis: Axis, unit: Unit) -> list[str]:
    """The ticks as short texts of which no two are the same."""
    values = [tick * unit.factor for tick in axis.ticks]
    for digits in range(3, 17):
        texts = [short(value, digits) for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def short(value: float, digits: int = 4) -> str:
    """A number for an axis or a caption: 0.002, 1e-5, 250, 20K, NaN, Inf."""
    if not math.isfinite(value):
        return str(value).replace("nan", "NaN").replace("inf", "Inf")
    digits = max(digits, 4) if 1e3 <= abs(value) < 1e4 else digits
    rounded = float(f"{value:.{digits}g}")
    for limit, suffix in ((1e9, "B"), (1e6, "M"), (1e4, "K")):
        if limit <= abs(rounded) < 1e12:
            power = 1e3 if suffix == "K" else limit
            return f"{rounded / power:.{digits}g}{suffix}"
    text = f"{rounded:.{digits}g}"
    return re.sub(r"e([+-])0*", lambda match: "e" + match[1].strip("+"), text)
