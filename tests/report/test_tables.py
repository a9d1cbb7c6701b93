"""Tables reach a page cell by cell."""

from page_runs import HOSTILE, PageReader

from manyhands.report.page import fragment
from manyhands.report.tables import Column, Table, TableRow


def test_cells_are_text_in_their_columns_and_marked_rows_stand_out() -> None:
    table = Table(
        title="Ranks",
        columns=[Column("rank", is_number=True), Column("where")],
        rows=[TableRow(["0", HOSTILE]), TableRow(["1", "b"], is_marked=True)],
        note="Medians.",
    )
    page = PageReader(fragment("tables", {"tables": [table]}))
    assert [attrs.get("class") for attrs in page.tags("tr")] == [None, None, "marked"]
    assert [attrs.get("class") for attrs in page.tags("td")][:2] == ["number", None]
    assert HOSTILE in page.text and "Medians." in page.text and not page.tags("script")
