"""Findings for people."""

import io

from rich.console import Console

from manyhands.data.checking.finding import CHECKS, CheckResult, Finding
from manyhands.data.checking.verdict import MAX_SHOWN
from manyhands.doctor.dataset import findings_table

SCOPE = dict.fromkeys(CHECKS, "3 files")


def result_with(*findings, looked_at=SCOPE, cached=False):
    return CheckResult("/da[ta]", "full", (), 3, 3000, findings, looked_at, 1.5, cached)


def bad(episode):
    message = f"[frame] {episode} gone"
    return Finding("videos", "bad", message, episode, "videos/a.mp4", "top", (0, 1))


def printed(result, shows_all=False):
    console = Console(file=io.StringIO(), width=120)
    console.print(findings_table(result, shows_all))
    return console.file.getvalue()


def test_every_check_has_a_row():
    text = printed(result_with())
    assert all(f" {check} " in text for check in CHECKS)
    assert text.count(" ok ") == len(CHECKS)
    assert "/da[ta]" in text


def test_the_first_findings_are_shown_with_episode_and_file():
    text = printed(result_with(*map(bad, range(MAX_SHOWN + 2))))
    assert "episode 0, videos/a.mp4: [frame] 0 gone" in text
    assert f"episode {MAX_SHOWN}," not in text
    assert "and 2 more" in text
    assert f"episode {MAX_SHOWN + 1}," in printed(
        result_with(*map(bad, range(MAX_SHOWN + 2))), shows_all=True
    )
    assert " bad " in text


def test_what_was_not_looked_at_is_not_called_fine():
    text = printed(result_with(looked_at={}))
    assert " ok " not in text
    assert text.count(" skipped ") == len(CHECKS)
