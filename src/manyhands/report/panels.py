"""Which quantities share a chart, and how that chart is scaled."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart: its title, whose quantities it shows and what their axis may do."""

    title: str
    shows: str
    """Pattern of the names of its quantities."""
    is_noisy: bool = True
    """Draw the values faintly behind their running mean."""
    may_be_log: bool = False
    """Use a logarithmic axis when the values span a wide range."""
    from_zero: bool = False
    """Start the axis at zero, for amounts whose size matters and not only their change."""
    is_share: bool = False
    """Label the axis in percent."""
    is_wide: bool = False
    """Give the chart the width of the page."""


PANELS = (
    Panel(
        title="Loss",
        shows=r"loss|(val|validation|held_out|eval)_loss",
        may_be_log=True,
        is_wide=True,
    ),
    Panel(title="Loss terms", shows=r".+_loss", may_be_log=True),
    Panel(title="Learning rate", shows=r"lr(_.+)?", is_noisy=False, from_zero=True),
    Panel(title="Gradient norm", shows=r"grad_norm", may_be_log=True),
    Panel(title="Samples per second", shows=r"samples_per_s", from_zero=True),
    Panel(title="Waiting for data", shows=r"data_wait_share", from_zero=True, is_share=True),
    Panel(title="Seconds per step", shows=r"(?!.*_per_s$|wall_s$|elapsed_s$).+_s", from_zero=True),
)
COUNTS_UPWARD = re.compile(r"epochs?|samples|wall_s|elapsed_s|timestamp|time")
"""Quantities whose curve is a straight line."""
MAX_OTHERS = 8


def panels(names: Iterable[str]) -> list[tuple[Panel, list[str]]]:
    """The charts for these quantities, the most looked-at first; none shows up in two."""
    shown: dict[Panel, list[str]] = {panel: [] for panel in PANELS}
    others = []
    for name in sorted(names, key=lambda name: (name != "loss", name)):
        home = next((panel for panel in PANELS if re.fullmatch(panel.shows, name)), None)
        if home:
            shown[home].append(name)
        elif not COUNTS_UPWARD.fullmatch(name):
            others.append(name)
    known = [(panel, members) for panel, members in shown.items() if members]
    return known + [(_panel_of_its_own(name), [name]) for name in others[:MAX_OTHERS]]


def _panel_of_its_own(name: str) -> Panel:
    return Panel(title=name.replace("_", " ").capitalize(), shows=re.escape(name))
