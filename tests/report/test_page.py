"""One page, whole, by itself, whatever the run left behind."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.errors import UserError
from manyhands.report.page import ReportExtras, Result, report_available, write_report

VOID = {"meta", "img", "br", "link", "input", "hr"}
RUN = {
    "command": ["manyhands", "train", "--policy.type=act"],
    "started_at": "2025-01-02T03:04:05+00:00",
    "ending": "finished",
    "wall_s": 61.0,
    "policy": {"type": "act", "num_parameters": 1_000_000},
    "dataset": {"root": "data/pusht", "fingerprint": "abc"},
    "ranks": [{"rank": 0, "host": "a", "device": "cuda:0"}],
}


class Page(HTMLParser):
    """Elements in order; fails on tags that do not close where they should."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write_run(tmp_path, RUN, num_rows=50)
    return tmp_path


def write_run(folder: Path, run: dict[str, Any], num_rows: int) -> None:
    rng = np.random.default_rng(0)
    names = ("loss", "lr", "grad_norm", "samples_per_s", "data_wait_share", "l1_loss", "update_s")
    rows = [
        {"step": step + 1, **{name: float(rng.random()) for name in names}}
        for step in range(num_rows)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.json").write_text(json.dumps(run))


def test_a_page_shows_the_run_and_is_well_formed(run_dir: Path) -> None:
    path = write_report(run_dir)
    assert path == run_dir / "report.html"
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("svg") == 7
    for told in ("ACT on pusht", "finished", "2025-01-02 03:04 UTC", "1 min 01 s", "cuda:0"):
        assert told in text
    assert "--policy.type=act" in text


def test_extras_appear_on_the_page(run_dir: Path) -> None:
    frames = [np.full((8, 8, 3), color, dtype=np.uint8) for color in (0, 200)]
    extras = ReportExtras(
        title="It learned",
        lead="In one minute.",
        results=[Result("after", "66%", "33 of 50", share=0.66, interval=(0.52, 0.78))],
        filmstrips=[("A rollout", frames), ("Nothing to see", [])],
        next_commands=["manyhands eval --a=1", "manyhands train"],
    )
    text = write_report(run_dir, extras).read_text(encoding="utf-8")
    images = [attrs["src"] for tag, attrs in Page(text).elements if tag == "img"]
    assert len(images) == 1 and (images[0] or "").startswith("data:image/png;base64,")
    for told in ("<h1>It learned</h1>", "In one minute.", "33 of 50", "A rollout"):
        assert told in text
    assert "width: 66.00%" in text and "left: 52.00%; right: 22.00%" in text
    assert "manyhands eval --a=1\nmanyhands train" in text


def test_nothing_on_the_page_comes_from_elsewhere_or_runs(run_dir: Path) -> None:
    text = write_report(run_dir).read_text(encoding="utf-8")
    links = [
        value
        for tag, attrs in Page(text).elements
        for name, value in attrs.items()
        if name in ("src", "href", "xlink:href") and not (value or "").startswith(("data:", "#"))
    ]
    assert links == [] and "<script" not in text
    assert not re.search(r"url\((?!#)|@import", text)


def test_text_from_the_run_is_never_markup(tmp_path: Path) -> None:
    bad = "<script>alert('x')</script>&\"\ud800"
    run = {"command": [bad], "ending": bad, "started_at": bad, "policy": {"type": bad}}
    write_run(tmp_path, {**run, bad: {bad: bad}, "ranks": [{bad: bad}]}, num_rows=0)
    (tmp_path / "metrics.jsonl").write_text(
        "\n".join(json.dumps({"step": step, bad: 1.0, bad + "_loss": 2.0}) for step in (1, 2))
    )
    extras = ReportExtras(
        lead=bad,
        results=[Result(bad, bad, bad)],
        filmstrips=[(bad, [np.zeros((4, 4, 3), dtype=np.uint8)])],
        next_commands=[bad],
    )
    text = write_report(tmp_path, extras).read_text(encoding="utf-8")
    assert "script" not in {tag for tag, _ in Page(text).elements}
    assert text.count("&lt;script&gt;") > 10


@pytest.mark.parametrize(
    ("ending", "mood"),
    [
        ("finished", "good"),
        ("failed: KeyError", "bad"),
        ("diverged", "bad"),
        ("stopped", "neutral"),
    ],
)
def test_an_ending_is_colored_by_how_good_it_is(tmp_path: Path, ending: str, mood: str) -> None:
    write_run(tmp_path, {"ending": ending}, num_rows=1)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert f'<span class="pill {mood}">{ending}</span>' in text


def test_long_groups_and_long_tables_are_folded_away(tmp_path: Path) -> None:
    config = {f"flag_{number}": number for number in range(30)}
    ranks = [{"rank": rank} for rank in range(64)]
    write_run(tmp_path, {"config": config, "ranks": ranks, "stages": ranks[:2]}, num_rows=0)
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert ["open" in attrs for tag, attrs in page.elements if tag == "details"] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("metrics", [None, "", '{"step": 1, "lo', '{"step": 1, "loss": NaN}'])
@pytest.mark.parametrize("run", [None, "", "{", '{"policy": 3, "batch": [], "ranks": [1, {}]}'])
def test_damaged_or_missing_files_still_give_a_page(
    tmp_path: Path, metrics: str | None, run: str | None
) -> None:
    for name, content in (("metrics.jsonl", metrics), ("run.json", run)):
        if content is not None:
            (tmp_path / name).write_text(content)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    Page(text)
    assert "No metrics were logged." in text


def test_the_same_run_gives_the_same_bytes(run_dir: Path) -> None:
    first = write_report(run_dir).read_bytes()
    assert write_report(run_dir).read_bytes() == first
    assert sorted(path.name for path in run_dir.iterdir()) == [
        "metrics.jsonl",
        "report.html",
        "run.json",
    ]


def test_a_long_run_stays_under_a_megabyte(tmp_path: Path) -> None:
    write_run(tmp_path, RUN, num_rows=5000)
    assert write_report(tmp_path).stat().st_size < 1_000_000


def test_a_folder_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere is not a folder. Pass a run's --output_dir"):
        write_report(tmp_path / "nowhere")


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_told_with_its_remedy(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report_available() is None
    monkeypatch.setitem(sys.modules, package, None)
    sentence = "report.html needs an extra. Install: pip install 'manyhands[report]'"
    assert report_available() == sentence
    with pytest.raises(UserError, match=re.escape(sentence)):
        write_report(tmp_path)
