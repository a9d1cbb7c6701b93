"""Charts of a page as markup."""

from collections.abc import Sequence
from dataclasses import dataclass

from manyhands.report.charts import Chart, draw
from manyhands.report.page import fragment


@dataclass(frozen=True)
class Drawing:
    """Draws the charts of a page, all with the same number of points."""

    num_points: int
    is_small: bool = False  # Many little charts that are compared with each other

    def html(self, charts: Sequence[Chart], note: str = "", has_controls: bool = False) -> str:
        """Charts side by side, and a sentence below."""
        drawn = [draw(chart, self.num_points) for chart in charts]
        content = {"charts": drawn, "note": note, "has_controls": has_controls}
        return fragment("charts", content | {"is_small": self.is_small})
