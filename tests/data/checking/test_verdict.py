"""A result in words."""

from manyhands.data.checking.coverage import Frames
from manyhands.data.checking.finding import CHECKS, CheckResult, Finding
from manyhands.data.checking.verdict import MAX_SHOWN, findings_text, verdict_line

SCOPE = dict.fromkeys(CHECKS, "3 files")


def result_with(*findings, cached=False):
    seen = {"numbering": {each: Frames(1000, 1000) for each in range(3)}}
    return CheckResult("/data", "full", (), 3, 3000, findings, SCOPE, 1.5, cached, coverage=seen)


def bad(episode):
    message = f"frame {episode} gone"
    return Finding("videos", "bad", message, episode, "videos/a.mp4", "top", (0, 1))


def test_the_first_findings_have_a_line_each_and_the_others_are_counted():
    lines = findings_text(result_with(*map(bad, range(MAX_SHOWN + 2))), "videos").splitlines()
    assert lines[0] == "episode 0, videos/a.mp4: frame 0 gone"
    assert len(lines) == MAX_SHOWN + 1 and lines[-1] == "and 2 more"
    assert findings_text(result_with(bad(0)), "tasks") == ""


def test_the_verdict_is_one_line():
    warning = Finding("numbers", "warning", "odd")
    assert verdict_line(result_with()) == "usable: checked 3 episodes with 3,000 frames in 1.5 s"
    assert verdict_line(result_with(warning, cached=True)) == (
        "usable: checked 3 episodes with 3,000 frames earlier, 1 warning"
    )
    assert verdict_line(result_with(bad(0), bad(0), bad(1), warning)) == (
        "bad: checked 3 episodes with 3,000 frames in 1.5 s, 2 faults in 2 episodes, 1 warning"
    )
    fatal = Finding("metadata", "bad", "gone")
    assert verdict_line(result_with(fatal)).endswith(", 1 fault in the dataset")


def test_what_could_not_be_read_is_not_counted_as_checked():
    seen = {"numbering": {0: Frames(1000, 1000), 1: Frames(0, 1000), 2: Frames(0, 1000)}}
    result = CheckResult("/data", "full", (), 3, 3000, (bad(1),), SCOPE, 1.5, coverage=seen)
    assert verdict_line(result).startswith(
        "bad: checked 1 of 3 episodes with 1,000 of 3,000 frames"
    )
