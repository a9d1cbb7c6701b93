"""One file, by itself, that runs no script but its own."""

import re
import sys
from base64 import b64encode
from hashlib import sha256

import pytest
from page_runs import HOSTILE, PageReader

from manyhands.errors import UserError
from manyhands.report.page import (
    Page,
    Section,
    report_available,
    require_report,
    resource,
    section,
)

PAGE = Page(
    "A run", [Section("top", "", "<h1>A run</h1>"), Section("curves", "Curves", "<p>x</p>")]
)


def test_sections_stand_under_their_headings_and_can_be_jumped_to() -> None:
    page = PageReader(PAGE.html())
    assert page.tags("section") == [{"id": "curves", "data-version": PAGE.sections[1].version}]
    assert page.tags("header")[0]["id"] == "top"
    assert page.tags("a") == [{"href": "#curves"}] and page.text.startswith("A run A run Curves")


def test_a_version_changes_with_the_content() -> None:
    assert Section("a", "A", "x").version == Section("a", "A", "x").version
    assert Section("a", "A", "x").version != Section("a", "A", "y").version
    assert Section("a", "A", "\ud800").version


def test_only_the_pages_own_script_may_run_and_nothing_may_be_fetched() -> None:
    (policy,) = (
        attrs["content"] or ""
        for attrs in PageReader(PAGE.html()).tags("meta")
        if "http-equiv" in attrs
    )
    digest = b64encode(sha256(resource("page.js").encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert "connect-src" not in policy and "connect-src 'self'" in PAGE.html(is_live=True)


def test_nothing_on_the_page_comes_from_elsewhere() -> None:
    text = PAGE.html()
    assert not re.search(r"url\(|@import|https?://", text)
    assert not any("src" in attrs for attrs in PageReader(text).tags("script"))


def test_text_is_never_markup() -> None:
    made = section("x", HOSTILE, "notes", {"notes": [HOSTILE]})
    page = PageReader(Page(HOSTILE, [PAGE.sections[0], made]).html())
    assert len(page.tags("script")) == 1 and not page.tags("img")
    assert page.text.count("alert('x')") == 4


@pytest.mark.parametrize("package", ["jinja2"])
def test_a_missing_extra_is_named_with_its_remedy(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report_available() is None
    monkeypatch.setitem(sys.modules, package, None)
    sentence = "report.html needs an extra. Install: pip install 'manyhands[report]'"
    assert report_available() == sentence
    with pytest.raises(UserError, match=re.escape(sentence)):
        require_report()


def test_a_page_needs_no_plotting_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report_available() is None and PAGE.html()
