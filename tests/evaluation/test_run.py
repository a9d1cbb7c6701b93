"""From flags to files: results, videos, and which weights are evaluated."""

from datetime import datetime

import pytest

from manyhands.config.commands.eval import EvaluatedPolicyConfig
from manyhands.errors import CheckpointError, UserError
from manyhands.evaluation import results_folder
from manyhands.evaluation.run import chosen_device, evaluated_folder, run_evaluation
from manyhands.observe import progress_lines


def test_progress_is_shown_while_videos_are_rendered(
    config_of, tray_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(progress_lines, "PERIOD_S", 0.0)
    found = run_evaluation(config_of(tray_run, tmp_path / "out", max_videos=2))
    shown = capsys.readouterr().err.splitlines()
    filmed = [line for line in shown if line.startswith("steps of videos: ")]
    num_steps = sum(result.length for result in found.results[:2])
    assert filmed[0].startswith(f"steps of videos: 0 of {num_steps} (0%)")
    assert filmed[-1].startswith(f"steps of videos: {num_steps} of {num_steps} (100%)")


def test_results_are_known_before_videos_are_rendered(
    config_of, tray_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(progress_lines, "PERIOD_S", 0.0)
    known = []

    def note(episodes):
        known.append((episodes.results, capsys.readouterr().err))

    out = tmp_path / "out"
    found = run_evaluation(config_of(tray_run, out, max_videos=1), on_finished=note)
    [(results, shown)] = known
    assert results == found.results and len(results) == 5
    assert "episodes: 5 of 5" in shown and "steps of videos" not in shown


def test_results_lie_in_a_folder_of_their_own_by_default(
    config_of, tray_run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    class Noon(datetime):
        @classmethod
        def now(cls):
            return datetime(2026, 1, 2, 12)

    monkeypatch.setattr(results_folder, "datetime", Noon)
    first, found = (run_evaluation(config_of(tray_run, None, max_videos=0)) for _ in range(2))
    assert first.output_dir.name == "12-00-00_tray_act"
    assert found.output_dir.parts[:2] == ("outputs", "eval")
    assert found.output_dir.name == "12-00-00_tray_act_2"
    assert (tmp_path / found.output_dir / "eval_info.json").is_file()


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
