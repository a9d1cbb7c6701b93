"""Charts as markup."""

import numpy as np
from page_runs import PageReader

from manyhands.report.charts import Chart, Line
from manyhands.report.drawing import Drawing
from manyhands.report.metrics import Series


def test_all_charts_are_drawn_with_their_note() -> None:
    steps = np.arange(100.0)
    chart = Chart(title="Loss", lines=[Line(name="loss", series=Series(steps, steps))])
    page = PageReader(Drawing(60).html([chart, chart], "Two charts."))
    assert len(page.charts) == 2 and len(page.charts[0]["lines"][0]["x"]) <= 60
    assert "Two charts." in page.texts
    assert page.tags("div")[0]["class"] == "charts"
    small = PageReader(Drawing(60, is_small=True).html([chart]))
    assert small.tags("div")[0]["class"] == "charts small"
