"""Rollouts: failures first, and as much of them as fits."""

from pathlib import Path

import pytest
from page_runs import write_evaluation

from manyhands.report.media import Allowance, still_uris, video_uri
from manyhands.report.runs.evaluations import Evaluation, find_evaluations
from manyhands.report.runs.rollouts import MAX_SLIDES, filmed_episodes, in_turn, slides


@pytest.fixture
def evaluations(tmp_path: Path) -> list[Evaluation]:
    write_evaluation(tmp_path / "eval" / "10", [False, True], num_filmed=1)
    write_evaluation(tmp_path / "eval" / "20", [True, False, False, True], num_filmed=3)
    return find_evaluations(tmp_path)


def test_failures_come_first_and_the_latest_evaluation_before_others(
    evaluations: list[Evaluation],
) -> None:
    shown, note = slides(filmed_episodes(evaluations), Allowance(10**9))
    assert [slide.success for slide in shown] == [False, False, True, False]
    assert shown[0].caption == "step 20, episode 1, seed 1001, 31 steps, maximum reward 0"
    assert [slide.caption.split(",")[0] for slide in shown] == ["step 20"] * 3 + ["step 10"]
    assert all(slide.video and len(slide.frames) == 8 for slide in shown) and note == ""


def test_rollouts_of_several_runs_take_turns(evaluations: list[Evaluation]) -> None:
    one, other = (filmed_episodes([each]) for each in evaluations)
    assert [each.evaluation.label for each in in_turn([one, other])] == [
        *("step 20", "step 10", "step 20", "step 20")
    ]
    many = in_turn([one * MAX_SLIDES, other * MAX_SLIDES])[:MAX_SLIDES]
    assert sum(each.evaluation is evaluations[1] for each in many) == MAX_SLIDES / 2


def test_videos_are_dropped_before_frames_and_that_is_said(evaluations: list[Evaluation]) -> None:
    filmed = filmed_episodes(evaluations)
    files = [each.evaluation.video(each.episode) for each in filmed]
    frames = sum(len(uri) for file in files for uri in still_uris(file))
    one_video = len(video_uri(files[0]) or "")
    shown, note = slides(filmed, Allowance(frames + one_video))
    assert [bool(slide.video) for slide in shown] == [True, False, False, False]
    assert all(slide.frames for slide in shown)
    assert note.startswith("3 videos are not embedded: the page would exceed its size.")
    nothing, note = slides(filmed, Allowance(0))
    assert not any(slide.video or slide.frames for slide in nothing)
    assert "4 rollouts have no images" in note


def test_episodes_without_videos_are_no_slides(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "eval" / "1", [True])
    assert filmed_episodes(find_evaluations(tmp_path)) == []
    assert slides([], Allowance(9)) == ([], "")


def test_a_flood_of_rollouts_is_cut_and_counted(evaluations: list[Evaluation]) -> None:
    filmed = filmed_episodes(evaluations)[:1] * (MAX_SLIDES + 5)
    shown, note = slides(filmed, Allowance(10**9))
    assert len(shown) == MAX_SLIDES and note.startswith("5 more rollouts are not shown.")
