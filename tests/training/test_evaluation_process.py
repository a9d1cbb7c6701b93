"""The process that evaluates a snapshot."""

import io
import json
import os
import pickle
import sys
from types import SimpleNamespace

import pytest

from manyhands.config.commands.eval import EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.eval import TrainEvalConfig
from manyhands.evaluation.rollout_control import LimitedUse, RolloutControl
from manyhands.training.evaluation_process import UNLIMITED, gentle_control, main
from manyhands.training.start import run_training


def test_it_evaluates_what_it_is_given_and_gives_way_to_others(
    tray_argv, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    run_training(read_train_config(tray_argv(tmp_path / "run", "--steps=1")))
    request = EvalCommandConfig(
        policy=EvaluatedPolicyConfig(path=str(tmp_path / "run"), device="cpu"),
        env=TrayEnvConfig(episode_length=4),
        eval=TrainEvalConfig(n_episodes=3, use_async_envs=False, async_=True),
        output_dir=tmp_path / "eval",
        max_videos=1,
    )
    priorities: list[int] = []
    monkeypatch.setattr(os, "nice", priorities.append)
    given = SimpleNamespace(buffer=io.BytesIO(pickle.dumps(request)))
    monkeypatch.setattr(sys, "stdin", given)
    main()
    assert priorities == [19]
    info = json.loads((tmp_path / "eval/eval_info.json").read_text())
    assert info["overall"]["n_episodes"] == 3


def test_it_uses_a_gpu_a_small_share_of_the_time_until_training_has_ended(tmp_path):
    def control(device: str) -> RolloutControl:
        policy = EvaluatedPolicyConfig(path=str(tmp_path), device=device)
        return gentle_control(EvalCommandConfig(policy=policy))

    assert control("cpu") == RolloutControl()
    limit = control("cuda").predicting
    assert isinstance(limit, LimitedUse) and limit.share < 0.1
    assert not limit.is_unlimited()
    (tmp_path / UNLIMITED).touch()
    assert limit.is_unlimited()
