"""Results, videos, and what remains where an episode cannot be filmed."""

import importlib
import json
from pathlib import Path

import av
import pytest

from manyhands.evaluation.run import run_evaluation


def test_every_episode_has_its_row(evaluation):
    info = json.loads((evaluation.output_dir / "eval_info.json").read_text())
    assert [row["seed"] for row in info["per_episode"]] == [20, 21, 22, 23, 24]
    assert info["overall"]["n_episodes"] == len(evaluation.results) == 5
    assert info["per_group"].keys() == {"tray"}


def test_videos_that_are_named_exist_and_show_every_step(evaluation):
    info = json.loads((evaluation.output_dir / "eval_info.json").read_text())
    paths = [Path(path) for path in info["overall"]["video_paths"]]
    assert [path.name for path in paths] == [f"eval_episode_{index}.mp4" for index in range(3)]
    for path, result in zip(paths, evaluation.results[:3], strict=True):
        assert path.parent == evaluation.output_dir / "videos"
        with av.open(str(path)) as container:
            assert sum(1 for _ in container.decode(video=0)) == result.length + 1
    assert (evaluation.output_dir / "film_strips.png").stat().st_size > 0


def test_nothing_is_filmed_on_request(config_of, tray_run, tmp_path):
    found = run_evaluation(config_of(tray_run, tmp_path / "out", max_videos=0))
    assert [path.name for path in found.output_dir.iterdir()] == ["eval_info.json"]


@pytest.mark.parametrize(
    "fault", [{"on_render": "raise"}, {"on_render": "float"}, {"render_mode": None}]
)
def test_results_do_not_need_videos(config_of, tray_run, tmp_path, point_env, fault):
    env = point_env(episode_length=3, **fault)
    found = run_evaluation(config_of(tray_run, tmp_path / "out", env, max_videos=3))
    info = json.loads((tmp_path / "out" / "eval_info.json").read_text())
    assert len(found.results) == info["overall"]["n_episodes"] == 5
    assert info["overall"]["video_paths"] == []
    assert found.warning.startswith("no videos: ")


def test_an_episode_that_crashes_while_it_is_filmed_has_no_video(
    config_of, tray_run, tmp_path, point_env, monkeypatch
):
    point = importlib.import_module("toy_worlds").Point
    reset = point.reset

    def reset_unless_seen(environment, *, seed=None, options=None):
        fail = seen.count(seed) == 1 and seed == 1001
        seen.append(seed)
        assert not fail
        return reset(environment, seed=seed)

    seen = []
    monkeypatch.setattr(point, "reset", reset_unless_seen)
    config = config_of(tray_run, tmp_path / "out", point_env(episode_length=3), max_videos=2)
    warning = run_evaluation(config).warning
    assert warning.startswith("no video of episode 1: the environment raised AssertionError")
    info = json.loads((tmp_path / "out" / "eval_info.json").read_text())
    names = [Path(path).name for path in info["overall"]["video_paths"]]
    assert names == ["eval_episode_0.mp4"]


def test_failures_are_filmed_first(config_of, tray_run, tmp_path, point_env):
    """Seeds of the toy differ in how near its point begins to the goal."""
    env = point_env(episode_length=3, near=0.8)
    found = run_evaluation(config_of(tray_run, tmp_path / "out", env, seed=4, max_videos=2))
    failures = [result.index for result in found.results if not result.success]
    assert 2 <= len(failures) < 5 and failures[:2] != [0, 1]
    films = {path.name for path in (tmp_path / "out" / "videos").iterdir()}
    assert films == {f"eval_episode_{index}.mp4" for index in failures[:2]}
