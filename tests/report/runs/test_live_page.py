"""A live page follows its run."""

import json
from pathlib import Path

import pytest
from page_runs import metric_rows, run_facts, write_evaluation, write_rows, write_run

from manyhands.errors import UserError
from manyhands.report.runs import live_page
from manyhands.report.runs.live_page import LivePage


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are looked for at every request."""
    monkeypatch.setattr(live_page, "LEAST_PAUSE_S", 0.0)
    monkeypatch.setattr(live_page, "PAUSE_FACTOR", 0.0)


def versions(page: LivePage) -> dict[str, str]:
    return {each.anchor: each.version for each in page._newest().sections}


def test_only_what_has_changed_is_sent(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ending=None)
    page = LivePage(run, num_frames=0)
    known = versions(page)
    assert page.changes(known) == {"sections": {}}
    write_rows(run / "metrics.jsonl", metric_rows(101))
    changed = page.changes(known)["sections"]
    assert "learning" in changed and "configuration" not in changed
    assert 'id="learning"' in changed["learning"] and "<script>" not in changed["learning"]
    assert page.changes(versions(page)) == {"sections": {}}


def test_the_ending_of_a_run_arrives(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ending=None)
    page = LivePage(run, num_frames=0)
    known = versions(page)
    (run / "run.json").write_text(json.dumps(run_facts(ending="finished")))
    assert "finished" in page.changes(known)["sections"]["top"]


def test_a_new_section_asks_for_the_complete_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", num_rows=3)
    page = LivePage(run, num_frames=0)
    known = versions(page)
    write_evaluation(run / "eval" / "4", [True])
    assert page.changes(known) == {"reload": True}
    assert page.changes({}) == {"reload": True}
    assert "step 4" in page.html()


def test_a_run_that_has_not_begun_is_an_empty_page(tmp_path: Path) -> None:
    page = LivePage(tmp_path, num_frames=2)
    assert "No metrics were logged." in page.html() and "data-live" in page.html()


def test_a_page_is_not_built_more_often_than_its_pause_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "LEAST_PAUSE_S", 3600.0)
    run = write_run(tmp_path / "run")
    page = LivePage(run, num_frames=0)
    known = versions(page)
    write_rows(run / "metrics.jsonl", metric_rows(101))
    assert page.changes(known) == {"sections": {}}


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        LivePage(tmp_path / "none", num_frames=0)
