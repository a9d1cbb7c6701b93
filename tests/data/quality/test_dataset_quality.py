"""Planted faults are found, and healthy episodes left alone."""

import json
import shutil

import numpy as np
import pytest

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.quality import camera_samples
from manyhands.data.quality.dataset_quality import QualityOptions, judge_quality
from manyhands.data.quality.episode_quality import Fault
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

MIN_SCORE = 0.9


def scores(quality, planted):
    """Precision and recall of every planted kind of fault."""
    found = {fault: set(quality.with_fault(fault)) for fault in planted}
    right = {fault: len(found[fault] & set(own)) for fault, own in planted.items()}
    return {
        fault: (right[fault] / max(len(found[fault]), 1), right[fault] / len(own))
        for fault, own in planted.items()
    }


def check(quality, planted):
    for fault, (precision, recall) in scores(quality, planted).items():
        assert precision > MIN_SCORE and recall > MIN_SCORE, (fault, precision, recall)
    faulty = {episode for own in planted.values() for episode in own}
    assert len(set(quality.exclude_episodes) ^ faulty) <= (1 - MIN_SCORE) * len(faulty)


def test_healthy_demonstrations_have_no_findings(demonstrations, judge):
    quality = judge(demonstrations)
    assert [each.findings for each in quality.episodes if each.findings] == []
    assert quality.exclude_flag == ""


def test_planted_faults_are_found_in_synthetic_demonstrations(planted, judge):
    quality = judge(planted.root)
    check(quality, planted.episodes)
    numbers = ",".join(map(str, quality.exclude_episodes))
    assert quality.exclude_flag == f"--dataset.exclude_episodes=[{numbers}]"


def test_the_document_is_plain_json(planted, judge):
    document = json.loads(json.dumps(judge(planted.root).document(), allow_nan=False))
    episode = next(each for each in document["episodes"] if each["findings"])
    assert {"fault", "message", "value", "joint", "camera", "frames"} <= set(episode["findings"][0])
    assert document["faults"]["jerk"] == planted.episodes[Fault.JERK]


def test_some_episodes_keep_their_numbers(planted, judge):
    chosen = [0, *planted.episodes[Fault.TRUNCATED], *range(10, 20)]
    quality = judge(planted.root, chosen)
    assert [each.episode for each in quality.episodes] == sorted(chosen)


def test_progress_reaches_the_number_of_sampled_frames(planted, judge):
    meta, seen = read_dataset_meta(planted.root), []
    source = Source(planted.root, meta, select_episodes(meta.episodes, [0, 1]))
    judge_quality(
        source, QualityOptions(num_workers=0, on_progress=lambda *each: seen.append(each))
    )
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_planted_faults_are_found_among_human_demonstrations(shared, tmp_path, plant_faults, judge):
    source = shared / "data" / "pusht"
    if not source.is_dir():
        pytest.skip("needs PushT")
    assert judge(source, num_workers=2).exclude_episodes == []
    planted = plant_faults(source, tmp_path / "dataset", 15)
    quality = judge(planted.root, num_workers=2)
    print(scores(quality, planted.episodes))
    check(quality, planted.episodes)


def test_an_older_format_is_judged_the_same(plain_root, version_2, tmp_path, judge):
    old = tmp_path / "old"
    version_2(plain_root, old)
    new, older = judge(plain_root), judge(old)
    assert [each.document() for each in new.episodes] == [
        each.document() for each in older.episodes
    ]
    assert all(len(each.cameras) == 2 for each in new.episodes)


def test_a_camera_that_cannot_be_decoded_costs_only_itself(plain_root, tmp_path, judge):
    root = shutil.copytree(plain_root, tmp_path / "dataset")
    (video,) = root.rglob("*.mp4")
    video.unlink()
    assert all(len(each.cameras) == 1 for each in judge(root).episodes)
    assert np.isfinite([each.cameras[0].brightness for each in judge(root).episodes]).all()


def test_cameras_are_sampled_until_the_time_is_up(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(camera_samples, "_JOB_S", 0.0)
    meta = read_dataset_meta(planted.root)
    source = Source(planted.root, meta, select_episodes(meta.episodes, None))
    hurried = judge_quality(source, QualityOptions(num_workers=0, home=tmp_path, max_s=-1.0))
    assert not hurried.is_complete and len(hurried.episodes) == len(meta.episodes)
    assert any(not each.cameras for each in hurried.episodes)
