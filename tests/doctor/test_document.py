"""Findings for programs."""

import json

from manyhands.data.checking.finding import CHECKS, CheckResult, Finding
from manyhands.doctor.dataset import as_json

BAD = Finding("videos", "bad", "frame 3: gone", 2, "videos/a.mp4", "top", (13, 14))


def test_a_program_finds_what_it_needs():
    looked_at = dict.fromkeys(CHECKS, "all")
    result = CheckResult("/data", "full", ("top",), 3, 30, (BAD,), looked_at, 1.5, cached=True)
    document = json.loads(json.dumps(as_json(result)))
    assert [check["name"] for check in document["checks"]] == list(CHECKS)
    videos = document["checks"][CHECKS.index("videos")]
    assert videos["state"] == "bad"
    assert videos["findings"][0] == {
        "episodes": [2],
        "files": ["videos/a.mp4"],
        "message": "frame 3: gone",
        "severity": "bad",
        "keys": ["top"],
        "frames": [[13, 14]],
    }
    assert {check["state"] for check in document["checks"]} == {"ok", "bad"}
    expected = {"num_episodes": 3, "num_frames": 30, "bad_episodes": [2], "wall_s": 1.5}
    assert expected.items() <= document.items()
    assert "Use the other 2 episodes: --dataset.exclude_episodes=[2]" in document["remedies"]
    assert document["cached"] is True and document["is_usable"] is False
