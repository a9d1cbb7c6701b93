"""A live page follows its run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from page_runs import PageReader, metric_rows, run_facts, write_evaluation, write_rows, write_run

from manyhands.config.runs.run_dir import LOCK
from manyhands.errors import UserError
from manyhands.report.runs import live_page
from manyhands.report.runs.live_page import LivePage
from manyhands.report.runs.run_files import MAX_NAMED

HOLD = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


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


@contextmanager
def running(run: Path) -> Iterator[None]:
    """Another process that holds the lock of a run."""
    program, streams = [sys.executable, "-c", HOLD, str(run / LOCK)], subprocess.PIPE
    with subprocess.Popen(program, stdin=streams, stdout=streams) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield
        process.kill()


@pytest.mark.process
def test_a_run_that_has_just_begun_is_an_empty_page(tmp_path: Path) -> None:
    with running(tmp_path):
        page = LivePage(tmp_path, num_frames=2)
        text = PageReader(page.html()).text
    assert "No metrics were logged." in text and "running" in text and "data-live" in page.html()


@pytest.mark.process
@pytest.mark.parametrize("ending", [None, "stopped"], ids=["first start", "resumed"])
def test_the_death_of_a_run_arrives(tmp_path: Path, ending: str | None) -> None:
    run = write_run(tmp_path / "run", ending=ending)
    with running(run):
        page = LivePage(run, num_frames=0)
        known = versions(page)
        assert "running" in PageReader(page.html()).text
    top = PageReader(page.changes(known)["sections"]["top"]).text
    assert (ending or "killed") in top and "running" not in top


def test_a_folder_without_a_run_is_a_usage_error_that_names_runs_below_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no run .* Pass a run's --output_dir"):
        LivePage(tmp_path, num_frames=0)
    runs = [write_run(tmp_path / f"run{number}") for number in range(MAX_NAMED + 1)]
    with pytest.raises(UserError) as fault:
        LivePage(tmp_path, num_frames=0)
    assert f"Choose a run below it: {runs[0]}, {runs[1]}" in str(fault.value)
    assert str(fault.value).endswith(", ...")


def test_a_page_is_not_built_more_often_than_its_pause_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "LEAST_PAUSE_S", 3600.0)
    run = write_run(tmp_path / "run")
    page = LivePage(run, num_frames=0)
    known = versions(page)
    write_rows(run / "metrics.jsonl", metric_rows(101))
    assert page.changes(known) == {"sections": {}}


def test_the_last_page_stays_when_its_run_is_removed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    page = LivePage(run, num_frames=0)
    known = versions(page)
    for file in run.iterdir():
        file.unlink()
    assert page.changes(known) == {"sections": {}}
    run.rmdir()
    assert page.changes(known) == {"sections": {}} and "data-live" in page.html()
    write_run(run, num_rows=50)
    assert "learning" in page.changes(known)["sections"]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        LivePage(tmp_path / "none", num_frames=0)
