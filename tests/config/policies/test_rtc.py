"""Real-time chunking in LeRobot's files."""

from manyhands.config.policies.rtc import RtcConfig
from manyhands.config.schema.decoding import encode


def test_files_hold_what_every_release_knows():
    assert "mode" not in encode(RtcConfig(), stored=True)
    assert encode(RtcConfig())["mode"] == "guided"
