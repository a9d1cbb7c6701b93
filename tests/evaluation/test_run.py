"""From flags to files: results, videos, and which weights are evaluated."""

import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import av
import pytest

from manyhands.config.commands.eval import EvalCommandConfig, EvalConfig, EvaluatedPolicyConfig
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.errors import CheckpointError, UserError
from manyhands.evaluation import run
from manyhands.evaluation.run import chosen_device, evaluated_folder, new_folder, run_evaluation
from manyhands.observe import progress_lines

LENGTH = 6


def config_of(run, output_dir, env=None, **settings):
    return EvalCommandConfig(
        policy=EvaluatedPolicyConfig(path=str(run), device="cpu"),
        env=env or TrayEnvConfig(episode_length=LENGTH),
        eval=EvalConfig(n_episodes=5, use_async_envs=False),
        output_dir=output_dir,
        **settings,
    )


@pytest.fixture(scope="module")
def evaluation(tray_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluation") / "results" / "first"
    return run_evaluation(config_of(tray_run, folder, seed=20, max_videos=3))


def test_every_episode_has_its_row(evaluation):
    info = json.loads((evaluation.output_dir / "eval_info.json").read_text())
    assert [row["seed"] for row in info["per_episode"]] == [20, 21, 22, 23, 24]
    assert info["overall"]["n_episodes"] == len(evaluation.results) == 5
    assert info["per_group"].keys() == {"tray"}


def test_videos_that_are_named_exist_and_show_every_step(evaluation):
    info = json.loads((evaluation.output_dir / "eval_info.json").read_text())
    paths = [Path(path) for path in info["overall"]["video_paths"]]
    assert [path.name for path in paths] == [f"eval_episode_{index}.mp4" for index in range(3)]
    for path in paths:
        assert path.parent == evaluation.output_dir / "videos"
        with av.open(str(path)) as container:
            assert sum(1 for _ in container.decode(video=0)) == LENGTH + 1
    assert (evaluation.output_dir / "film_strips.png").stat().st_size > 0


def test_nothing_is_filmed_on_request(tray_run, tmp_path):
    found = run_evaluation(config_of(tray_run, tmp_path / "out", max_videos=0))
    assert [path.name for path in found.output_dir.iterdir()] == ["eval_info.json"]


def test_progress_is_shown_while_videos_are_rendered(tray_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress_lines, "PERIOD_S", 0.0)
    run_evaluation(config_of(tray_run, tmp_path / "out", max_videos=2))
    shown = capsys.readouterr().err.splitlines()
    filmed = [line for line in shown if line.startswith("steps of videos: ")]
    num_steps = 2 * LENGTH
    assert filmed[0].startswith(f"steps of videos: 0 of {num_steps} (0%)")
    assert filmed[-1].startswith(f"steps of videos: {num_steps} of {num_steps} (100%)")


def test_results_are_known_before_videos_are_rendered(tray_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress_lines, "PERIOD_S", 0.0)
    known = []

    def note(episodes):
        known.append((episodes.results, capsys.readouterr().err))

    out = tmp_path / "out"
    found = run_evaluation(config_of(tray_run, out, max_videos=1), on_finished=note)
    [(results, shown)] = known
    assert results == found.results and len(results) == 5
    assert "episodes: 5 of 5" in shown and "steps of videos" not in shown


def test_results_lie_in_a_folder_of_their_own_by_default(tray_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Noon(datetime):
        @classmethod
        def now(cls):
            return datetime(2026, 1, 2, 12)

    monkeypatch.setattr(run, "datetime", Noon)
    first, found = (run_evaluation(config_of(tray_run, None, max_videos=0)) for _ in range(2))
    assert first.output_dir.name == "12-00-00_tray_act"
    assert found.output_dir.parts[:2] == ("outputs", "eval")
    assert found.output_dir.name == "12-00-00_tray_act_2"
    assert (tmp_path / found.output_dir / "eval_info.json").is_file()


def test_evaluations_that_start_at_the_same_time_have_folders_of_their_own(tmp_path):
    parent = tmp_path / "outputs" / "eval"
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda _: new_folder(parent, "12-00-00_pusht_act"), range(8))]
    numbers = ["", *(f"_{number}" for number in range(2, 9))]
    assert sorted(path.name for path in made) == sorted(f"12-00-00_pusht_act{n}" for n in numbers)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file cannot be written: .*--output_dir"):
        new_folder(tmp_path / "file", "12-00-00_pusht_act")


@pytest.mark.parametrize(
    ("below", "use_ema", "name"),
    [
        ("", None, "pretrained_model_ema"),
        ("", True, "pretrained_model_ema"),
        ("", False, "pretrained_model"),
        ("checkpoints/last", None, "pretrained_model_ema"),
        ("checkpoints/000002", False, "pretrained_model"),
        ("checkpoints/last/pretrained_model", None, "pretrained_model"),
        ("checkpoints/last/pretrained_model", True, "pretrained_model_ema"),
        ("checkpoints/last/pretrained_model_ema", None, "pretrained_model_ema"),
    ],
)
def test_averaged_weights_are_evaluated_where_a_run_has_them(tray_run, below, use_ema, name):
    config = EvaluatedPolicyConfig(path=str(tray_run / below), use_ema=use_ema)
    assert evaluated_folder(config).name == name


def test_the_evaluated_folder_is_reported(evaluation):
    assert evaluation.policy_folder.name == "pretrained_model_ema"


def test_averaged_weights_that_do_not_exist_cannot_be_asked_for(tray_run, tmp_path):
    plain = tmp_path / "policy"
    plain.symlink_to(tray_run / "checkpoints/last/pretrained_model")
    assert evaluated_folder(EvaluatedPolicyConfig(path=str(plain))) == plain
    with pytest.raises(UserError, match="has no averaged weights"):
        evaluated_folder(EvaluatedPolicyConfig(path=str(plain), use_ema=True))


def test_a_folder_without_a_policy_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="contains no policy"):
        evaluated_folder(EvaluatedPolicyConfig(path=str(tmp_path)))


def test_a_device_must_be_here():
    assert chosen_device(None, "cpu").type == chosen_device("cpu", "cuda").type == "cpu"
    with pytest.raises(UserError, match=r"--policy\.device=cuda:99: .* not available"):
        chosen_device("cuda:99", None)


@pytest.mark.parametrize(
    "fault", [{"on_render": "raise"}, {"on_render": "float"}, {"render_mode": None}]
)
def test_results_do_not_need_videos(tray_run, tmp_path, point_env, fault):
    env = point_env(episode_length=3, **fault)
    found = run_evaluation(config_of(tray_run, tmp_path / "out", env, max_videos=3))
    info = json.loads((tmp_path / "out" / "eval_info.json").read_text())
    assert len(found.results) == info["overall"]["n_episodes"] == 5
    assert info["overall"]["video_paths"] == []
    assert found.warning.startswith("no videos: ")


def test_an_episode_that_crashes_while_it_is_filmed_has_no_video(
    tray_run, tmp_path, point_env, monkeypatch
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


def test_failures_are_filmed_first(tray_run, tmp_path, point_env):
    """Seeds of the toy differ in how near its point begins to the goal."""
    env = point_env(episode_length=3, near=0.8)
    found = run_evaluation(config_of(tray_run, tmp_path / "out", env, seed=4, max_videos=2))
    failures = [result.index for result in found.results if not result.success]
    assert 2 <= len(failures) < 5 and failures[:2] != [0, 1]
    films = {path.name for path in (tmp_path / "out" / "videos").iterdir()}
    assert films == {f"eval_episode_{index}.mp4" for index in failures[:2]}
