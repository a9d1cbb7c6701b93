"""Pages in a real browser: no errors, no network, no sideways scrolling; run by make page-test."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_browser import Browser, browser_path, running_browser
from page_datasets import no_bar, write_dataset
from page_runs import metric_rows, run_facts, serving, write_everything, write_rows, write_run

from manyhands.report.datasets.dataset_page import write_dataset_report
from manyhands.report.runs import live_page
from manyhands.report.runs.run_page import write_report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser_path() is None, reason="needs Chromium"),
]
PAPER_WIDTH = 690  # Of A4 without margins, in CSS pixels.
FIRST_CHART = "document.querySelector('figure.chart')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    one, other = write_everything(folder / "one"), write_everything(folder / "other")
    changed = run_facts()["config"] | {"seed": 8, "job_name": "another job with a long name"}
    (other / "run.json").write_text(json.dumps(run_facts(config=changed)))
    (folder / "empty").mkdir()
    return {
        "one": write_report([one]),
        "compared": write_report([one, other], folder / "compared.html"),
        "empty": write_report([folder / "empty"]),
        "dataset": write_dataset_report(
            write_dataset(folder / "dataset"), folder / "dataset.html", bar=no_bar
        ),
    }


@pytest.mark.parametrize("width", [1280, 400, 320])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["one", "compared", "empty", "dataset"])
def test_a_page_fits_its_screen_without_errors_or_requests(
    browser: Browser, pages: dict[str, Path], name: str, width: int, is_dark: bool
) -> None:
    browser.events.clear()
    address = pages[name].as_uri()
    browser.show(address, width, is_dark)
    assert browser.value("document.documentElement.scrollWidth") <= width
    background = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (not is_dark)
    assert browser.faults() == [] and browser.requests() == [address]


def test_values_appear_under_the_pointer_and_with_arrow_keys(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["one"].as_uri(), 1280)
    browser.value(f"{FIRST_CHART}.scrollIntoView({{block: 'center'}})")
    box = browser.value(f"{FIRST_CHART}.querySelector('.over').getBoundingClientRect().toJSON()")
    place = {"x": box["left"] + box["width"] / 2, "y": box["top"] + box["height"] / 2}
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
    tip = browser.value(f"{FIRST_CHART}.querySelector('.tip').textContent")
    assert tip.startswith("step 2") and "loss" in tip
    browser.value(f"{FIRST_CHART}.querySelector('.over').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Home", code="Home")
    assert "step 4" in browser.value(f"{FIRST_CHART}.querySelector('.tip').textContent")


def test_a_tap_shows_the_values_of_its_place_until_one_elsewhere(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    browser.show(pages["one"].as_uri(), 400)
    browser.value(f"{FIRST_CHART}.scrollIntoView({{block: 'center'}})")
    box = browser.value(f"{FIRST_CHART}.querySelector('.over').getBoundingClientRect().toJSON()")
    shown = f"{{const t = {FIRST_CHART}.querySelector('.tip'); t.hidden ? '' : t.textContent}}"
    places = [(0.0, "step 4loss"), (0.5, "step 2"), (0.5, "step 2"), (1.0, "step 400")]
    for share, start in places:
        browser.tap(box["left"] + share * (box["width"] - 1), box["top"] + box["height"] / 2)
        assert browser.value(shown).startswith(start)
    browser.tap(box["left"], box["top"] - 60)
    assert browser.value(shown) == ""
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


@pytest.mark.parametrize("width", [1280, 400])
def test_every_value_of_a_comparison_has_the_name_of_its_run(
    browser: Browser, pages: dict[str, Path], width: int
) -> None:
    browser.show(pages["compared"].as_uri(), width)
    head = browser.value("document.querySelector('.compared thead').checkVisibility()")
    before = "[...document.querySelectorAll('.compared td')].map("
    names = browser.value(before + "(each) => getComputedStyle(each, '::before').content)")
    assert head if width > 1000 else names == ['"one"', '"other"'] * (len(names) // 2) != []


def test_paper_has_every_column_of_wide_tables(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["compared"].as_uri(), PAPER_WIDTH)
    browser.call("Emulation.setEmulatedMedia", media="print")
    tables = "[...document.querySelectorAll('.scroll')]"
    cut = f"{tables}.filter((each) => each.scrollWidth > each.clientWidth).length"
    heads = "[...document.querySelectorAll('.scroll table:not(.flags) th')]"
    hidden = f"{heads}.filter((each) => !each.closest('details') && !each.clientHeight).length"
    found = [browser.value(each) for each in (cut, hidden)]
    browser.call("Emulation.setEmulatedMedia", media="")
    assert found == [0, 0]


def test_smoothing_redraws_and_lines_can_be_switched_off(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["one"].as_uri(), 1280)
    mean = f"{FIRST_CHART}.querySelector('.mean').getAttribute('d')"
    before = browser.value(mean)
    slide = "const s = document.querySelector('.smoothing'); s.value = {}; "
    slide += "s.dispatchEvent(new Event('input'))"
    browser.value(f"{{ {slide.format(0.2)} }}")
    assert browser.value(mean) not in (before, "")
    browser.value(f"{{ {slide.format(0)} }}")
    assert browser.value(mean) == ""
    browser.value(f"{{ {slide.format(0.03)} }}")
    assert browser.value(mean) == before
    browser.value(f"{FIRST_CHART}.querySelector('.legend button').click()")
    assert (
        browser.value(f"{FIRST_CHART}.querySelector('[data-line=\"0\"]').style.display") == "none"
    )


def test_videos_play_and_the_carousel_moves(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["one"].as_uri(), 400)
    browser.value("void document.querySelector('video').play()")
    browser.wait_for("document.querySelector('video').videoWidth > 0")
    assert browser.value("document.querySelectorAll('video').length") == 3
    counter = "document.querySelector('.carousel').previousElementSibling.textContent"
    assert "1 of 3" in browser.value(counter)
    browser.value("document.querySelector('[aria-label=\"Next rollout\"]').click()")
    browser.wait_for(f"{counter}.includes('2 of 3')")


def test_without_scripts_charts_tables_and_commands_are_there(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.show(pages["one"].as_uri(), 400)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.value(f"{FIRST_CHART}.querySelector('.raw').getBBox().width") > 900
    assert browser.value("document.body.innerText").count("manyhands train") == 2
    assert browser.value("getComputedStyle(document.querySelector('.copy')).display") == "none"


def test_a_live_page_follows_its_run(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "LEAST_PAUSE_S", 0.0)
    monkeypatch.setattr(live_page, "PAUSE_FACTOR", 0.0)
    run = write_run(tmp_path / "run", num_rows=20, ending=None)
    browser.events.clear()
    with serving(run) as server:
        browser.show(server.address, 1280)
        browser.value("document.body.mark = 'the same page'")
        write_rows(run / "metrics.jsonl", metric_rows(24))
        browser.wait_for("document.querySelector('#top .tiles')?.innerText.includes('\\n96\\n')")
        browser.wait_for(f"{FIRST_CHART}?.data?.lines[0].x.at(-1) === 96")
        assert browser.value("document.body.mark") == "the same page"
        # An evaluation is a section that was not there.
        write_rows(run / "metrics.jsonl", metric_rows(25))
        browser.wait_for("document.querySelector('#success') !== null")
    assert browser.faults() == []
    assert all(address.startswith(server.address) for address in browser.requests())
