"""Results have the keys of LeRobot's `eval_info.json`, and more beside them."""

import json

import pytest

from manyhands.evaluation.eval_info import as_json, eval_info
from manyhands.evaluation.rollout import EpisodeResult

# As `lerobot-eval` of LeRobot 0.6.1 writes them.
AGGREGATED = {"avg_sum_reward", "avg_max_reward", "pc_success", "n_episodes"}
FILMS = {"video_paths", "predicted_video_paths"}
METRICS = {"sum_rewards", "max_rewards", "successes"}
EPISODE = {"episode_ix", "sum_reward", "max_reward", "success", "seed"}

RESULTS = [
    EpisodeResult(index=0, seed=10, success=True, sum_reward=6.0, max_reward=1.0, length=40),
    EpisodeResult(index=1, seed=11, success=False, sum_reward=2.0, max_reward=0.5, length=80),
    EpisodeResult(
        index=2, seed=12, success=False, sum_reward=1.0, max_reward=0.0, length=9, error="died"
    ),
]
VIDEOS = {1: "videos/eval_episode_1.mp4", 0: "videos/eval_episode_0.mp4"}


@pytest.fixture
def info():
    return json.loads(json.dumps(eval_info(RESULTS, "pusht", 6.0, VIDEOS)))


def test_the_keys_are_those_of_lerobot(info):
    (task,) = info["per_task"]
    assert task.keys() == {"task_group", "task_id", "metrics"}
    assert task["metrics"].keys() == METRICS | FILMS
    assert info["per_group"].keys() == {"pusht"}
    assert info["per_group"]["pusht"].keys() == AGGREGATED | FILMS
    assert info["overall"].keys() == AGGREGATED | FILMS | {"eval_s", "eval_ep_s"}
    assert all(row.keys() >= EPISODE for row in info["per_episode"])


def test_crashes_are_failures_but_no_rewards(info):
    overall = info["overall"]
    assert overall["n_episodes"] == 3
    assert overall["pc_success"] == pytest.approx(100 / 3)
    assert (overall["avg_sum_reward"], overall["avg_max_reward"]) == (4.0, 0.75)
    assert (overall["eval_s"], overall["eval_ep_s"]) == (6.0, 2.0)
    assert info["per_task"][0]["metrics"]["successes"] == [True, False, False]
    assert info["per_episode"][2]["error"] == "died"


def test_videos_are_listed_by_episode(info):
    paths = ["videos/eval_episode_0.mp4", "videos/eval_episode_1.mp4"]
    assert info["overall"]["video_paths"] == info["per_task"][0]["metrics"]["video_paths"] == paths


def test_the_verdict_stands_beside_the_keys_of_lerobot(info):
    band = (10.0, 20.0)
    judged = json.loads(json.dumps(eval_info(RESULTS, "pusht", 6.0, VIDEOS, band)))
    assert judged == info | {"expected_success": [10.0, 20.0], "verdict": "reproduced"}
    assert as_json(RESULTS, 6.0, (0.0, 1.0))["verdict"] == "above"
    assert "verdict" not in as_json(RESULTS, 6.0)


def test_programs_get_every_episode_and_the_score():
    found = json.loads(json.dumps(as_json(RESULTS, 6.0)))
    assert found["success"] == pytest.approx(1 / 3)
    assert found["interval"][0] < 1 / 3 < found["interval"][1]
    assert [row["seed"] for row in found["episodes"]] == [10, 11, 12]
    assert found["wall_s"] == 6.0 and "frames" not in found["episodes"][0]
