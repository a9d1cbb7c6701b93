"""A record of an episode."""

import json

from manyhands.data.quality.episode_quality import (
    CameraQuality,
    EpisodeQuality,
    Fault,
    QualityFinding,
)

MEASURES = dict.fromkeys(
    ("jerk", "jerk_peak", "ending_speed", "nearest_episode", "nearest_distance")
)


def record(*findings):
    camera = CameraQuality("top", 120.0, None)
    return EpisodeQuality(
        episode=3,
        num_frames=10,
        duration_s=1.0,
        idle_share=0.0,
        longest_idle_s=0.0,
        cameras=(camera,),
        findings=findings,
        **MEASURES,
    )


def test_a_note_alone_excludes_nothing():
    note = QualityFinding(Fault.IDLE, "no motion for 4 s", 4.0, is_worth_excluding=False)
    fault = QualityFinding(Fault.JERK, "x trembles", 5.0, joint="action[x]")
    assert not record().is_worth_excluding and not record(note).is_worth_excluding
    assert record(note, fault).is_worth_excluding
    assert record(note, fault).faults == {Fault.IDLE, Fault.JERK}


def test_a_record_survives_json():
    frozen = QualityFinding(Fault.FROZEN, "top is frozen", 2.0, camera="top", frames=(3, 9))
    document = json.loads(json.dumps(record(frozen).document()))
    assert document["findings"][0]["fault"] == "frozen camera"
    assert document["findings"][0]["frames"] == [3, 9]
    assert document["is_worth_excluding"] is True
    assert document["cameras"] == [{"camera": "top", "brightness": 120.0, "frozen_share": None}]
