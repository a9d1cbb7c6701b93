"""Any dataset becomes one page below its size, whatever is in it, and stays as it was."""

from pathlib import Path

import numpy as np
import pytest
from page_datasets import DARK, JERKY, damage_video, no_bar, write_dataset
from page_runs import HOSTILE, PageReader

from manyhands.data.checking import jobs
from manyhands.errors import DatasetError
from manyhands.report.datasets import dataset_files
from manyhands.report.datasets.dataset_page import write_dataset_report
from manyhands.report.page import MAX_BYTES


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "filmed")


def read(root: Path, output: Path, num_images: int = 6) -> PageReader:
    path = write_dataset_report(root, output, "", num_images, no_bar)
    assert path == output and path.stat().st_size < MAX_BYTES
    return PageReader(path.read_text(encoding="utf-8"))


def files_of(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*")}


def test_a_page_has_every_section_and_the_flag_to_paste(filmed: Path, tmp_path: Path) -> None:
    page = read(filmed, tmp_path / "page.html")
    for title in ("Check", "Quality of episodes", "Episodes", "Lengths and tasks", "Cameras"):
        assert title in page.texts
    assert f"--dataset.exclude_episodes=[{JERKY},{DARK}]" in page.texts
    assert "Exclude 2 episodes when training" in page.text
    assert page.text.count(f"Episode {JERKY} ") == 1 and "10 of 10 episodes shown." in page.text
    assert page.text.index(f"Episode {DARK} ") < page.text.index("Episode 0 ")
    assert len(page.tags("img")) == 10 * 6
    assert all(str(each["src"]).startswith("data:image/jpeg") for each in page.tags("img"))
    curves = [
        each for each in page.charts if each["along"] == "seconds" and len(each["lines"]) == 2
    ]
    assert len(curves) == 10 * 2


def test_the_page_lies_here_under_the_name_of_the_dataset_which_stays_as_it_was(
    filmed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files_of(filmed)
    assert write_dataset_report(filmed, num_images=0, bar=no_bar) == Path("filmed.html")
    assert write_dataset_report(filmed, None, "owner/name", 0, no_bar) == Path("name.html")
    assert (
        sorted(path.name for path in tmp_path.iterdir()) == ["filmed.html", "name.html"]
        and files_of(filmed) == before
    )
    page = PageReader(Path("name.html").read_text())
    assert "owner/name" in page.texts and not page.tags("img")


def test_the_tiny_dataset_without_cameras_has_a_page(tiny_dataset: Path, tmp_path: Path) -> None:
    page = read(tiny_dataset, tmp_path / "page.html")
    assert not page.tags("img") and "Cameras" not in page.texts
    assert "4 of 4 episodes shown." in page.text and "action[1]" in page.texts


def test_tasks_are_never_markup(tmp_path: Path) -> None:
    task = HOSTILE.encode("utf-8", "replace").decode()
    page = read(write_dataset(tmp_path / "d", 2, None, task), tmp_path / "page.html")
    assert page.text.count("<script>alert('x')</script>") == 3
    assert len([each for each in page.tags("script") if not each]) == 1


def test_a_single_episode_of_one_frame_has_a_page(tmp_path: Path, record_tiny) -> None:
    record_tiny(tmp_path / "d", "observation.state", [1], np.random.default_rng(0).normal)
    assert "1 of 1 episode shown." in read(tmp_path / "d", tmp_path / "page.html").text


def test_many_episodes_are_thinned_and_that_is_said(tmp_path: Path) -> None:
    page = read(write_dataset(tmp_path / "d", 300, None), tmp_path / "page.html")
    assert "24 of 300 episodes shown." in page.text
    assert len(page.tags("article")) == 24
    shown = [text for text in page.texts if text.startswith("Episode ")]
    assert f"Episode {JERKY}" in shown[:12] and "Episode 299" in shown


def test_a_damaged_video_is_reported_where_its_images_would_be(tmp_path: Path) -> None:
    page = read(damage_video(write_dataset(tmp_path / "d", 3), 1), tmp_path / "page.html")
    assert "bad: checked 3 episodes" in page.text and "damaged: see the check" in page.text
    assert len(page.tags("img")) == 2 * 6
    assert "--dataset.exclude_episodes=[1]" in page.texts


def test_damaged_tables_are_reported_and_the_rest_is_shown(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", 2)
    for table in (root / "data").rglob("*.parquet"):
        table.write_bytes(b"nothing")
    page = read(root, tmp_path / "page.html")
    assert "Not judged: " in page.text and "Values are not shown: " in page.text


def test_without_metadata_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text("{}")
    with pytest.raises(DatasetError, match="codebase_version"):
        write_dataset_report(tmp_path, bar=no_bar)


def test_a_check_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_files, "CHECK_S", -1.0)
    monkeypatch.setattr(jobs, "_JOB_S", 0.0)
    page = read(write_dataset(tmp_path / "slow", 3), tmp_path / "page.html")
    assert "not checked: that would take too long" in page.text
    assert "3 of 3 episodes shown." in page.text


def test_numbers_that_are_not_finite_or_huge_leave_a_page(tmp_path: Path, record_tiny) -> None:
    chance = np.random.default_rng(0)
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -1e31, 1e-40, 0.0, 1.0])

    def draw(size: int) -> np.ndarray:
        return chance.choice(odd, size)

    record_tiny(tmp_path / "d", "observation.state", [9] * 10, draw)
    page = read(tmp_path / "d", tmp_path / "page.html")
    assert "10 of 10 episodes shown." in page.text
