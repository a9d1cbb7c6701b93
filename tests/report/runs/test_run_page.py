"""Any run directory becomes one page below its size, whatever is in it."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_runs import (
    HOSTILE,
    PageReader,
    metric_rows,
    run_facts,
    write_evaluation,
    write_everything,
    write_ranks,
    write_rows,
    write_run,
)

from manyhands.errors import UserError
from manyhands.report.page import MAX_BYTES, Section, bounded_sections
from manyhands.report.runs.run_page import write_report

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(HOSTILE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "loss",
    "eval_success",
    "eval_success_low",
    "step_s",
    "data_s",
    "gpu_memory_bytes",
    HOSTILE,
)


def read(path: Path) -> PageReader:
    assert path.stat().st_size < MAX_BYTES
    return PageReader(path.read_text(encoding="utf-8"))


def test_a_page_is_written_into_the_run_or_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = write_run(tmp_path / "run"), write_run(tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    assert write_report([run]) == run / "report.html"
    assert write_report([run, other]) == Path("report.html")
    assert write_report([run], tmp_path / "x.html") == tmp_path / "x.html"
    assert "2 runs compared" in (tmp_path / "report.html").read_text()
    assert sorted(path.name for path in run.iterdir()) == [
        "metrics.jsonl",
        "report.html",
        "run.json",
    ]


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*Set --output=FILE in a writable folder"):
        write_report([write_run(tmp_path / "run")], tmp_path / "none" / "x.html")


def test_a_complete_run_is_shown_completely(tmp_path: Path) -> None:
    page = read(write_report([write_everything(tmp_path / "run")]))
    for words in (
        "ACT on pusht",
        "finished",
        "Straggler: 3",
        "step 400",
        "Failure",
        "Episode 3: x",
    ):
        assert words in page.text
    assert len(page.tags("video")) == 3 and len(page.tags("img")) == 24
    assert "Training frames are not shown: the dataset is not reachable." in page.text


def test_no_run_of_a_sweep_is_lost(tmp_path: Path) -> None:
    sweep = "act_pusht_lr_0.0001_batch_size_64_warmup_500_weight_decay_0.01_augmented_ema_seed_"
    configs = [run_facts()["config"] | {"seed": seed} for seed in range(3)]
    runs = [
        write_run(tmp_path / f"{sweep}{seed}", config=config) for seed, config in enumerate(configs)
    ]
    page = read(write_report(runs, tmp_path / "page.html"))
    for chart in (each for each in page.charts if not each["stacked"]):
        names = [line["name"] for line in chart["lines"]]
        assert [name[-6:] for name in names] == ["seed_0", "seed_1", "seed_2"]
    assert all(f"--seed={seed}" in page.text for seed in range(3))


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = write_everything(tmp_path / "run")
    first = write_report([run]).read_bytes()
    assert write_report([run]).read_bytes() == first


def test_every_number_of_a_chart_is_in_the_files(tmp_path: Path) -> None:
    run = write_everything(tmp_path / "run")
    logged = {
        float(f"{value:.6g}")
        for row in metric_rows(100)
        for name, value in row.items()
        if name != "step"
    }
    steps = {row["step"] for row in metric_rows(100)}
    charts = [chart for chart in read(write_report([run])).charts if chart["along"] == "step"]
    assert len(charts) == 9
    for line in (line for chart in charts for line in chart["lines"]):
        assert {*line["y"], *line.get("low", ())} <= logged and {*line["x"]} <= steps


@pytest.mark.parametrize("metrics", [None, "", '{"step": 1, "lo', '{"step": 1, "loss": NaN}'])
@pytest.mark.parametrize("run", [None, "", "{", '{"policy": 3, "batch": [], "ranks": [1, {}]}'])
def test_damaged_or_missing_files_still_give_a_page(
    tmp_path: Path, metrics: str | None, run: str | None
) -> None:
    for name, content in (("metrics.jsonl", metrics), ("run.json", run)):
        if content is not None:
            (tmp_path / name).write_text(content)
    assert "No metrics were logged." in read(write_report([tmp_path])).text


def hostile_run(folder: Path) -> Path:
    """A run whose every text is an attack."""
    facts = run_facts()
    facts |= dict.fromkeys(("ending", "started_at", "job_name"), HOSTILE)
    facts |= {"command": [HOSTILE] * 4, "policy": {"type": HOSTILE}, "ranks": [{HOSTILE: HOSTILE}]}
    facts |= {HOSTILE: {HOSTILE: HOSTILE}, "dataset": {"root": HOSTILE}}
    facts["config"] |= {"job_name": HOSTILE, HOSTILE: {HOSTILE: HOSTILE}, "seed": HOSTILE}
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(facts))
    write_rows(
        folder / "metrics.jsonl",
        [{"step": step, HOSTILE: 1.0, f"{HOSTILE}_loss": step} for step in (1, 2)],
    )
    write_rows(folder / "ranks.jsonl", [{"rank": 0, "step_s": 1, "host": HOSTILE, "gpu": HOSTILE}])
    write_evaluation(folder / "<img onerror=alert(1)>", [False], num_filmed=1)
    errors = {"joints": [{"name": HOSTILE}], "num_samples": HOSTILE, "episodes_are": HOSTILE}
    (folder / "open_loop.json").write_text(json.dumps(errors))
    return folder


def test_text_from_a_run_is_never_markup(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "<b>run")
    for page in (
        read(write_report([run])),
        read(write_report([run, tmp_path], tmp_path / "x.html")),
    ):
        assert page.text.count("alert('x')") > 10
        scripts = [attrs for attrs in page.tags("script") if not attrs.get("type")]
        assert len(scripts) == 1 and not page.tags("b").count({"onerror": "alert(1)"})
        assert all((attrs["src"] or "").startswith("data:") for attrs in page.tags("img"))
        assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=JSON, rows=st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=4))
def test_whatever_the_files_contain_there_is_a_page(
    tmp_path: Path, run: Any, rows: list[dict[str, Any]]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(run))
    for name in ("metrics.jsonl", "ranks.jsonl"):
        write_rows(tmp_path / name, [{"step": 2, "rank": 0} | row for row in rows])
    for name in ("eval_info.json", "open_loop.json", "open_loop_traces.json"):
        (tmp_path / name).write_text(json.dumps(run))
    assert len(read(write_report([tmp_path])).tags("h1")) == 1


WRONG = [None, True, -1, 10**400, 1e308, float("nan"), float("-inf"), "", HOSTILE, [], {}, [[]]]
FILES = ("run.json", "eval/400/eval_info.json", "open_loop/open_loop.json")
FILES += ("open_loop/open_loop_traces.json",)
CHARTED = {"learning", "success", "speed", "machine"}
"""Sections of the metrics: their charts need no other file, and leave out one wrong row."""


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of everything in a JSON document, the document itself excluded."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        each
        for key, part in inner
        for each in [
            (*place, key),
            *(leaves(part, (*place, key)) if isinstance(part, dict | list) else []),
        ]
    ]


def sections_in(run: Path) -> set[str | None]:
    """The sections of a run's page."""
    return {attrs.get("id") for attrs in read(write_report([run])).tags("section")}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_everything(tmp_path_factory.mktemp("mutated") / "run")


@settings(max_examples=10)
@given(file=st.sampled_from(FILES), where=st.floats(0, 0.999), wrong=st.sampled_from(WRONG))
def test_one_wrong_value_anywhere_still_gives_a_page(
    complete: Path, file: str, where: float, wrong: Any
) -> None:
    content = (complete / file).read_text()
    document = json.loads(content)
    places = leaves(document)
    *outer, last = places[int(where * len(places))]
    holder = document
    for key in outer:
        holder = holder[key]
    holder[last] = wrong
    try:
        (complete / file).write_text(json.dumps(document))
        assert sections_in(complete) >= CHARTED
        (complete / file).write_text(content[: int(where * len(content))])
        assert sections_in(complete) >= CHARTED
    finally:
        (complete / file).write_text(content)


@settings(max_examples=10)
@given(
    name=st.sampled_from(["metrics.jsonl", "ranks.jsonl"]),
    where=st.floats(0, 0.999),
    wrong=st.sampled_from(WRONG),
)
def test_one_wrong_value_in_a_row_still_gives_a_page(
    complete: Path, name: str, where: float, wrong: Any
) -> None:
    content = (complete / name).read_text()
    rows = [json.loads(line) for line in content.splitlines()]
    places = leaves(rows)
    row, field = places[int(where * len(places))][0], places[int(where * len(places))][-1]
    rows[row] = rows[row] | {field: wrong} if isinstance(field, str) else wrong
    try:
        (complete / name).write_text("\n".join(json.dumps(each) for each in rows))
        assert sections_in(complete) >= CHARTED
    finally:
        (complete / name).write_text(content)


def test_a_hundred_thousand_rows_are_thinned(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", num_rows=0)
    rows = [
        {"step": step, "loss": math.sin(step), "lr": 1 / step, "step_s": 0.1, "data_s": 0.01}
        for step in range(1, 100_001)
    ]
    write_rows(run / "metrics.jsonl", rows)
    page = write_report([run])
    assert page.stat().st_size < 400_000
    assert all(len(line["y"]) <= 500 for chart in read(page).charts for line in chart["lines"])


def test_a_flood_of_everything_stays_below_the_limit(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = {f"flag {number}": HOSTILE * 100 for number in range(5000)}
    write_run(run, config=config, command=[HOSTILE] * 10_000, **{"x" * 10_000: {"y": "z" * 10**6}})
    rows = [
        {"step": step} | {f"{number}_loss{HOSTILE}": step + number for number in range(2000)}
        for step in range(1, 20)
    ]
    write_rows(run / "metrics.jsonl", rows)
    write_ranks(run, num_ranks=500)
    for number in range(60):
        write_evaluation(run / "eval" / str(number), [False])
    page = write_report([run])
    assert page.stat().st_size < MAX_BYTES
    assert len(read(page).tags("h1")) == 1


def test_videos_that_do_not_fit_are_dropped_and_that_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_evaluation(run / "eval" / "400", [False] * 6, num_filmed=6)
    for video in (run / "eval" / "400" / "videos").iterdir():
        with video.open("ab") as file:
            file.write(bytes(1_000_000))
    page = read(write_report([run]))
    assert 1 <= len(page.tags("video")) < 6 and len(page.tags("img")) == 48
    assert re.search(r"\d videos are not embedded: the page would exceed its size", page.text)


def test_of_sections_that_are_too_large_the_largest_goes_by_name() -> None:
    small, large = Section("a", "A", "x" * 10), Section("b", "B", "y" * 1000)
    assert bounded_sections([small, large], 2000) == [small, large]
    kept, replaced = bounded_sections([small, large], 500)
    assert kept == small and replaced.title == "B" and "would exceed its size" in replaced.html
